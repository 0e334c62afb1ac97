"""The models of bench/models.py: those of Hugging Face's transformers by their configurations, with
random weights, so that nothing is downloaded, and torch's own encoder. Imported only.
"""
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class Case:
    """A model, and a batch that does not change: `call(model)` is its loss."""
    model: nn.Module
    size: str  # of the batch, for people
    call: object


def _tokens(vocabulary, batch, length, device):
    return torch.randint(vocabulary, (batch, length), device=device)


def _language_model(model, vocabulary, batch, length, device):
    tokens = _tokens(vocabulary, batch, length, device)
    return Case(model.to(device), f"{batch} x {length} tokens",
                lambda m: m(input_ids=tokens, labels=tokens).loss)


def _masked(model, vocabulary, batch, length, device):
    """Every seventh token is to be told; the others' labels do not count."""
    tokens = _tokens(vocabulary, batch, length, device)
    labels = tokens.masked_fill(torch.arange(length, device=device) % 7 > 0, -100)
    return Case(model.to(device), f"{batch} x {length} tokens",
                lambda m: m(input_ids=tokens, labels=labels).loss)


def gpt2(tiny, device):
    from transformers import GPT2Config, GPT2LMHeadModel
    small = dict(vocab_size=97, n_positions=32, n_embd=32, n_layer=2, n_head=2) if tiny else {}
    config = GPT2Config(**small, use_cache=False)
    batch, length = (2, 16) if tiny else (8, 1024)
    return _language_model(GPT2LMHeadModel(config), config.vocab_size, batch, length, device)


def llama(tiny, device):
    from transformers import LlamaConfig, LlamaForCausalLM
    sizes = (dict(vocab_size=97, hidden_size=32, intermediate_size=64, num_hidden_layers=2,
                  num_attention_heads=2) if tiny else
             dict(vocab_size=32000, hidden_size=1024, intermediate_size=2816, num_hidden_layers=20,
                  num_attention_heads=16))
    config = LlamaConfig(**sizes, tie_word_embeddings=True, use_cache=False)
    batch, length = (2, 16) if tiny else (8, 1024)
    return _language_model(LlamaForCausalLM(config), config.vocab_size, batch, length, device)


def qwen2(tiny, device):
    from transformers import Qwen2Config, Qwen2ForCausalLM
    sizes = (dict(vocab_size=97, hidden_size=32, intermediate_size=64, num_hidden_layers=2,
                  num_attention_heads=4, num_key_value_heads=2) if tiny else
             dict(vocab_size=151936, hidden_size=896, intermediate_size=4864, num_hidden_layers=24,
                  num_attention_heads=14, num_key_value_heads=2))
    config = Qwen2Config(**sizes, tie_word_embeddings=True, use_cache=False)
    batch, length = (2, 16) if tiny else (4, 1024)
    return _language_model(Qwen2ForCausalLM(config), config.vocab_size, batch, length, device)


def bert(tiny, device):
    from transformers import BertConfig, BertForMaskedLM
    small = dict(vocab_size=97, hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
                 intermediate_size=64) if tiny else {}
    config = BertConfig(**small)
    batch, length = (2, 16) if tiny else (16, 512)
    return _masked(BertForMaskedLM(config), config.vocab_size, batch, length, device)


def modernbert(tiny, device):
    from transformers import ModernBertConfig, ModernBertForMaskedLM
    ends = dict(pad_token_id=0, bos_token_id=1, cls_token_id=1, eos_token_id=2, sep_token_id=2)
    small = dict(vocab_size=97, hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
                 intermediate_size=48, **ends) if tiny else {}
    config = ModernBertConfig(**small, attn_implementation="sdpa")
    batch, length = (2, 16) if tiny else (16, 512)
    return _masked(ModernBertForMaskedLM(config), config.vocab_size, batch, length, device)


def t5(tiny, device):
    from transformers import T5Config, T5ForConditionalGeneration
    sizes = (dict(vocab_size=97, d_model=32, d_kv=16, d_ff=64, num_layers=2, num_heads=2) if tiny else
             dict(d_model=768, d_kv=64, d_ff=3072, num_layers=12, num_heads=12))
    config = T5Config(**sizes, decoder_start_token_id=0, use_cache=False)
    batch, length, target = (2, 16, 8) if tiny else (8, 512, 128)
    tokens, labels = (_tokens(config.vocab_size, batch, n, device) for n in (length, target))
    return Case(T5ForConditionalGeneration(config).to(device),
                f"{batch} x {length} tokens to {target}",
                lambda m: m(input_ids=tokens, labels=labels).loss)


def vit(tiny, device):
    from transformers import ViTConfig, ViTForImageClassification
    small = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64,
                 image_size=32, patch_size=8) if tiny else {}
    config = ViTConfig(**small, num_labels=10 if tiny else 1000)
    batch = 2 if tiny else 64
    images = torch.randn(batch, 3, config.image_size, config.image_size, device=device)
    labels = torch.randint(config.num_labels, (batch,), device=device)
    return Case(ViTForImageClassification(config).to(device),
                f"{batch} images of {config.image_size}^2",
                lambda m: m(pixel_values=images, labels=labels).loss)


class _Encoder(nn.Module):
    """torch.nn.TransformerEncoder between an embedding and a head: no transformers in it."""

    def __init__(self, vocabulary, width, heads, hidden, layers):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        layer = nn.TransformerEncoderLayer(width, heads, hidden, activation="gelu",
                                           batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, layers, nn.LayerNorm(width),
                                            enable_nested_tensor=False)
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens):
        logits = self.head(self.layers(self.embedding(tokens)))
        return nn.functional.cross_entropy(logits.flatten(0, 1), tokens.flatten())


def encoder(tiny, device):
    vocabulary, *sizes = (97, 32, 2, 64, 2) if tiny else (32000, 768, 12, 3072, 12)
    batch, length = (2, 16) if tiny else (16, 512)
    tokens = _tokens(vocabulary, batch, length, device)
    return Case(_Encoder(vocabulary, *sizes).to(device), f"{batch} x {length} tokens",
                lambda m: m(tokens))


MODELS = {"gpt2": gpt2, "vit": vit, "encoder": encoder, "qwen2": qwen2, "llama": llama,
          "modernbert": modernbert, "t5": t5, "bert": bert}
NEED_NOTHING = {"encoder"}  # of transformers
