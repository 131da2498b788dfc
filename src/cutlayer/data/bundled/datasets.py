"""The bundled data sets, by name."""

from cutlayer.data.bundled.breast_cancer import BreastCancer
from cutlayer.data.bundled.caravan import Caravan
from cutlayer.data.bundled.synthetic_ctr import SyntheticCtr
from cutlayer.data.vertical_data import DataSet
from cutlayer.registry import Registry

DATASETS: Registry[type[DataSet]] = Registry(
    "data set", {data.name: data for data in (Caravan, BreastCancer, SyntheticCtr)}
)
"""``DATASETS["caravan"]()`` makes one; options are keyword arguments."""
