"""Makes the echo model: a tiny Llama whose answer says what it attends to. Runs in the engine's environment.

    python model.py FOLDER VOCABULARY.json

The first layer attends uniformly (its queries and keys are zero) and moves one-hot values, so the next token is the one
that weighs most in everything attended to. A marker weighs more than any letter: KV that belongs to somebody else
becomes a word that a person can read. The second layer adds nothing to the output (its output projection is zero), but
its keys and values are random functions of the whole prefix: the bytes of a slot tell whose prompt wrote them. With
the first layer alone, repeated text would leave equal bytes.

VOCABULARY.json: ``{"markers": [...], "openings": [...]}``, one token each.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

WIDTH = 512  # hidden size = size of the vocabulary: token t is the t-th unit vector
HEADS = 8
MARKER_WEIGHT = 200.0
ATTENTION_WEIGHT = 100.0  # what was attended to outweighs the current token
SPECIAL = ("<s>", "</s>", "<pad>")


def make_tokenizer(markers: list[str], openings: list[str]) -> PreTrainedTokenizerFast:
    """One byte is one token, and so is each marker and each opening. A chat is its messages, one after the other."""
    vocabulary = {word: number for number, word in enumerate([*SPECIAL, *sorted(pre_tokenizers.ByteLevel.alphabet())])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_tokens([*markers, *openings])
    if tokenizer.get_vocab_size() > WIDTH:
        raise SystemExit(f"{tokenizer.get_vocab_size()} tokens do not fit into a model of width {WIDTH}")
    bos, eos, pad = SPECIAL
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token=bos, eos_token=eos, pad_token=pad)
    fast.chat_template = "{% for message in messages %}{{ message.content }}{% endfor %}"
    return fast


def make_model(heavy: list[int]) -> LlamaForCausalLM:
    """The weights; `heavy` are the token ids of the markers."""
    config = LlamaConfig(
        vocab_size=WIDTH, hidden_size=WIDTH, intermediate_size=32, num_hidden_layers=2, num_attention_heads=HEADS,
        num_key_value_heads=HEADS, max_position_embeddings=8192, bos_token_id=0, eos_token_id=1, pad_token_id=2,
        torch_dtype="float32", tie_word_embeddings=False,
    )  # fmt: skip
    model = LlamaForCausalLM(config).float()
    weight = torch.ones(WIDTH)
    weight[heavy] = MARKER_WEIGHT
    echo, deep = model.model.layers
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        for norm in (model.model.norm, echo.input_layernorm, echo.post_attention_layernorm):
            norm.weight.fill_(1.0)
        for norm in (deep.input_layernorm, deep.post_attention_layernorm):
            norm.weight.fill_(1.0)
        model.model.embed_tokens.weight.copy_(torch.eye(WIDTH))
        model.lm_head.weight.copy_(torch.eye(WIDTH))
        echo.self_attn.v_proj.weight.copy_(torch.diag(weight))
        echo.self_attn.o_proj.weight.copy_(torch.eye(WIDTH) * ATTENTION_WEIGHT)
        torch.manual_seed(0)
        for projection in (deep.self_attn.k_proj, deep.self_attn.v_proj):
            projection.weight.normal_(0.0, 0.05)
    return model


def main(folder: str, vocabulary: str) -> None:
    """Write model and tokenizer into `folder`."""
    words = json.loads(Path(vocabulary).read_text())
    tokenizer = make_tokenizer(words["markers"], words["openings"])
    for word in [*words["markers"], *words["openings"]]:
        if len(tokenizer(word).input_ids) != 1:
            raise SystemExit(f"{word} is not one token")
    tokenizer.save_pretrained(folder)
    make_model([tokenizer.convert_tokens_to_ids(word) for word in words["markers"]]).save_pretrained(folder)


if __name__ == "__main__":
    main(*sys.argv[1:])
