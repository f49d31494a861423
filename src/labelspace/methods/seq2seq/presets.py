"""The preset of `seq2seq`: the T5 baseline of Pathak (2024)."""

from __future__ import annotations

from labelspace.methods.parameters import AUTO
from labelspace.methods.presets import Preset, chosen, stated

# The prompt of the slides on one line, with {text} where the product's details are.
PROMPT = (
    "Your task is to extract specific product details from the given information. "
    "You need to identify and extract the following categories from the text: "
    "- Brand of the product "
    "- Primary category (L0_category) "
    "- Secondary category (L1_category) "
    "- Tertiary category (L2_category) "
    "- Quaternary category (L3_category) "
    "- Quinary category (L4_category) "
    "Input: {text} Output:"
)

PAPER = Preset(
    "The T5 baseline of Pathak (2024): a prompt, one sequence with brand and levels, free "
    "decoding; give a pretrained T5 as `model`.",
    model=chosen("small", "slide on T5: pretrained, fine-tuned; its size is not given: set model"),
    width=chosen(128, "of a new T5, where no pretrained one is given; the default"),
    layers=chosen(2, "of a new T5, where no pretrained one is given; the default"),
    heads=chosen(4, "of a new T5, where no pretrained one is given; the default"),
    dropout=chosen(0.1, "T5's own"),
    max_tokens=chosen(512, "T5's own limit; the prompt alone has more than 100 tokens"),
    vocabulary=chosen(8000, "of a new tokenizer, where no pretrained T5 is given; the default"),
    prompt=stated(PROMPT, "slide on the prompt"),
    format=stated("record", "slide on the prompt: details_Brand, then L0_category to L4_category"),
    decoding=chosen("free", "the slides restrict the output to nothing"),
    beams=chosen(1, "the slides name no beams: the most probable token is taken"),
    max_outputs=chosen(1, "a record is one sequence"),
    epochs=chosen(20, "not given; the default"),
    batch_size=chosen(AUTO, "not given; the default"),
    lr=chosen(AUTO, "not given; 0.0003 for a pretrained T5, 0.002 for a new one"),
    patience=chosen(3, "not given; the default"),
    validation=chosen(AUTO, "not given; the default"),
    metric=chosen("nDCG@5", "not given; the default"),
    linear_tree=chosen(False, "the slides combine the T5 with nothing"),
    device=chosen(AUTO, "not given"),
)
