"""Tables: one party's CSV or Parquet file, from its bytes to columns with a decision each."""
