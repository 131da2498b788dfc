import pytest

from cutlayer.reports.label_placement import Box, place_labels

FRAME = Box(0, 0, 300, 300)


def test_the_overlap_of_two_boxes_by_hand():
    assert Box(0, 0, 4, 3).overlap(Box(2, 1, 9, 9)) == 2 * 2
    assert Box(0, 0, 4, 3).overlap(Box(4, 0, 9, 3)) == 0
    assert Box(0, 0, 4, 3).area == 12


def test_a_lonely_label_stands_to_the_right_of_its_point():
    (box,) = place_labels([(100, 100)], [(40, 10)], [], FRAME)
    assert box == Box(108, 95, 148, 105)


def test_at_the_right_border_it_stands_to_the_left():
    (box,) = place_labels([(290, 100)], [(40, 10)], [], FRAME)
    assert box.right == pytest.approx(290 - 8)


def test_points_in_one_place_get_labels_that_do_not_overlap():
    points = [(150, 150)] * 8
    obstacle = Box(144, 144, 156, 156)
    boxes = place_labels(points, [(70, 12)] * 8, [obstacle], FRAME)
    for index, box in enumerate(boxes):
        assert box.overlap(FRAME) == pytest.approx(box.area)
        assert box.overlap(obstacle) == 0
        assert all(box.overlap(other) == 0 for other in boxes[:index])


def test_a_label_wider_than_the_frame_is_still_placed():
    (box,) = place_labels([(150, 150)], [(900, 10)], [], FRAME)
    assert box.right - box.left == pytest.approx(900)


def test_no_label_no_box():
    assert place_labels([], [], [], FRAME) == []
