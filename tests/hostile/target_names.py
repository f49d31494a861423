"""The names of the readers that are fuzzed, without importing any."""

NAMES = (
    "jsonl", "csv", "tsv", "parquet", "gzip", "xc", "svmlight", "xc-labels", "names", "taxonomy",
    "labels-tsv", "labels-csv", "labels-jsonl", "turtle", "ntriples", "rdf-xml", "safetensors",
    "cache", "json", "journal", "http",
)  # fmt: skip
