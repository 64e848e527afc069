"""Makes the inputs of both models: tokens, and an image or a sound for the towers, in the form of each one's own
processor.

The values are random, the same for both. MaxText has the numbers of its placeholder tokens in its code, for the
published vocabularies, and transformers has them in the config. Each gets its own, at the same places.
"""

import dataclasses
import math
import sys
from unittest import mock

LENGTH = 16
BEFORE = 5  # tokens before those for an image or a sound


def token_ids(config):
  """Returns every token that a config names, also in its parts."""
  for name, value in config.items():
    if isinstance(value, dict):
      yield from token_ids(value)
    elif "_token_i" in str(name) and isinstance(value, int):
      yield value


def tokens(config, length):
  """Returns different tokens. It avoids those for an image or a sound, which transformers removes even without one."""
  import numpy as np

  size = config.get_text_config().vocab_size
  count = min([size, *(special for special in token_ids(config.to_dict()) if special > size // 2)])
  step = next(step for step in range(7, count) if math.gcd(step, count) == 1)
  return ((np.arange(length) * step + 3) % count).astype(np.int32)


@dataclasses.dataclass
class Inputs:
  """Tokens, and the inputs at `places` among them."""
  ids: object
  places: slice = dataclasses.field(default_factory=lambda: slice(0, 0))
  token: int = 0  # transformers' placeholder
  reference: dict = dataclasses.field(default_factory=dict)  # additional inputs of transformers' model
  towers: dict = dataclasses.field(default_factory=dict)  # additional inputs of MaxText's model
  grid: object = None  # patches of a Qwen image, on which the positions of its tokens depend

  def of_transformers(self):
    import numpy as np
    import torch

    ids = np.array(self.ids)
    ids[self.places] = self.token
    return {"input_ids": torch.tensor(ids[None], dtype=torch.long),
            **{name: torch.tensor(array) for name, array in self.reference.items()}}

  def of_maxtext(self, config):
    """Returns tokens, positions, and the inputs of the towers."""
    import numpy as np

    ids = np.array(self.ids)
    if self.towers:
      ids[self.places] = placeholder(config, sound="encoder_audios" in self.towers)
    batch = np.broadcast_to(ids, (config.global_batch_size_to_train_on, len(ids)))
    positions = np.broadcast_to(np.arange(len(ids), dtype=np.int32), batch.shape)
    if self.grid is not None:
      positions = qwen_positions(config, batch, self.places.start, self.grid)
    return batch, positions, self.towers


def placeholder(config, sound):
  """Returns MaxText's own token."""
  from maxtext.multimodal import processor_gemma3, processor_gemma4, processor_llama4, processor_qwen3_omni

  if config.model_name.startswith("gemma3"):
    return processor_gemma3.GEMMA_TOKEN_PLACEHOLDER
  if config.model_name.startswith("gemma4"):
    return processor_gemma4.GEMMA4_TOKEN_PLACEHOLDER
  if config.model_name.startswith("llama4"):
    return processor_llama4.LLAMA4_PATCH_TOKEN
  special = processor_qwen3_omni.QwenTokens(config)
  return special.audio_pad if sound else special.image_pad


def qwen_positions(config, batch, start, grid):
  """Returns positions in time, height and width, from MaxText's code, which looks for the token before an image."""
  import numpy as np
  from maxtext.multimodal import processor_qwen3_omni

  batch = np.array(batch)
  batch[:, start - 1] = processor_qwen3_omni.QwenTokens(config).vision_start
  positions, _ = processor_qwen3_omni.get_rope_index(batch, grid, spatial_merge_size=config.spatial_merge_size_for_vit, config=config)
  return positions.astype(np.int32)


def random(*shape):
  import numpy as np

  return np.random.default_rng(7).standard_normal(shape).astype(np.float32)


def with_places(config, count, token, length=LENGTH):
  return Inputs(tokens(config, length), slice(BEFORE, BEFORE + count), token)


def marked(inputs):
  """Returns 1 where a token stands for an image."""
  import numpy as np

  marks = np.zeros((1, len(inputs.ids)), np.int64)
  marks[0, inputs.places] = 1
  return marks


def qwen_image(config):
  """Makes 4 x 6 patches, for which the learned grid of positions is interpolated."""
  import numpy as np

  vision, side, grid = config.vision_config, config.vision_config.patch_size, (1, 4, 6)
  inputs = with_places(config, 6, config.image_token_id)
  inputs.ids[BEFORE - 1] = config.vision_start_token_id
  pixels = random(grid[1] * grid[2], vision.in_channels * vision.temporal_patch_size * side * side)
  inputs.grid = np.array([grid])
  inputs.reference = {"pixel_values": pixels, "image_grid_thw": inputs.grid}
  if "omni" in config.model_type:  # it has positions in height and width only with a mask
    inputs.reference["attention_mask"] = np.ones((1, LENGTH), np.int64)
  else:
    inputs.reference["mm_token_type_ids"] = marked(inputs)
  inputs.towers = {"encoder_images": pixels.reshape(1, vision.in_channels, vision.temporal_patch_size, grid[1] * side, grid[2] * side)}
  return inputs


def gemma3_image(config):
  """Makes the whole image in 256 tokens, like MaxText."""
  count, side = config.mm_tokens_per_image, config.vision_config.image_size
  inputs = with_places(config, count, config.image_token_id, LENGTH + count)
  pixels = random(1, 3, side, side)
  inputs.reference = {"pixel_values": pixels, "token_type_ids": marked(inputs)}
  inputs.towers = {"encoder_images": pixels.transpose(0, 2, 3, 1)[:, None]}
  return inputs


def gemma4_image(config):
  """Makes 6 x 6 patches in four tokens. transformers gets them cut out, with their places."""
  import numpy as np

  side, grid = config.vision_config.patch_size, 6
  count = (grid // config.vision_config.pooling_kernel_size) ** 2
  inputs = with_places(config, count, config.image_token_id)
  pixels = random(1, grid * side, grid * side, 3)
  patches = pixels.reshape(grid, side, grid, side, 3).transpose(0, 2, 1, 3, 4).reshape(1, grid * grid, -1)
  y, x = np.divmod(np.arange(grid * grid), grid)
  inputs.reference = {"pixel_values": patches, "image_position_ids": np.stack([x, y], -1)[None], "mm_token_type_ids": marked(inputs)}
  inputs.towers = {"encoder_images": pixels[:, None]}
  return inputs


def llama4_image(config):
  """Makes two tiles, four tokens each."""
  vision, tiles = config.vision_config, 2
  count = tiles * int((vision.image_size // vision.patch_size * vision.pixel_shuffle_ratio) ** 2)
  inputs = with_places(config, count, config.image_token_id)
  pixels = random(tiles, vision.num_channels, vision.image_size, vision.image_size)
  inputs.reference = {"pixel_values": pixels}
  inputs.towers = {"encoder_images": pixels[None]}
  return inputs


def qwen_sound(config):
  """Makes two windows of the convolutions, 13 tokens each. In both models, their positions are those of a text."""
  import numpy as np

  audio, windows = config.audio_config, 2
  inputs = with_places(config, 13 * windows, config.audio_token_id, LENGTH + 13 * windows)
  features = random(1, audio.num_mel_bins, windows * 2 * audio.n_window)
  inputs.reference = {"input_features": features, "feature_attention_mask": np.ones((1, features.shape[2]), np.int64),
                      "position_ids": np.tile(np.arange(len(inputs.ids)), (3, 1, 1))}
  inputs.towers = {"encoder_audios": features}
  return inputs


def make(kind, config):
  """Returns the inputs for a model. `kind`: "image", "sound" or nothing, which gives only tokens."""
  if not kind:
    return Inputs(tokens(config, LENGTH))
  config = getattr(config, "thinker_config", config)
  if kind == "sound":
    return qwen_sound(config)
  return {"gemma3": gemma3_image, "gemma4": gemma4_image, "llama4": llama4_image}.get(config.model_type, qwen_image)(config)


def of_towers(model):
  """Returns the modules of towers, under any name."""
  return [module for name, tower in model.named_modules() if name.split(".")[-1] in ("visual", "vision_tower", "vision_model", "audio_tower")
          for module in tower.modules()]


def tanh_gelu(model):
  """Approximates GELU in the towers, like jax.nn.gelu by default."""
  # Source: AI-Hypercomputer/maxtext models/qwen3.py Qwen3OmniMoeVisionPatchMerger, Qwen3OmniAudioEncoder.
  import torch

  exact = torch.nn.functional.gelu

  def tanh(states, approximate="tanh"):  # pylint: disable=unused-argument
    return exact(states, approximate="tanh")

  for module in of_towers(model):
    if hasattr(module, "act") and getattr(module.act, "__name__", "") == "gelu":
      module.act = tanh
  wrap(model, lambda: mock.patch.object(torch.nn.functional, "gelu", tanh))


def rounded_positions(model):
  """Rounds the interpolated positions of patches to bfloat16, like MaxText with any `dtype_mm`."""
  # Source: AI-Hypercomputer/maxtext layers/embeddings.py Qwen3OmniMoeVisionPosEmbedInterpolate, `fprop_dtype`. The sum is
  # made in MaxText's order, because many fall half way between two numbers of bfloat16.
  import torch
  from transformers import vision_utils

  def interpolated(tower, grid):
    count = tower.num_grid_per_side
    table = tower.pos_embed.weight.reshape(count, count, -1)
    at = vision_utils.get_vision_position_ids(grid, tower.spatial_merge_size).float() / (grid[0, 1:] - 1).float() * (count - 1)
    low = at.floor().long()
    high = (low + 1).clamp(max=count - 1)
    (dy, dx), (y, x), (next_y, next_x) = (part[:, :, None] if part.is_floating_point() else part for part in ((at - low).T, low.T, high.T))
    return ((1 - dy) * (1 - dx) * table[y, x] + (1 - dy) * dx * table[y, next_x] + dy * (1 - dx) * table[next_y, x]
            + dy * dx * table[next_y, next_x]).bfloat16().float()

  def wrapped(tower, forward):
    def call(states, grid_thw, **named):
      found = interpolated(tower, grid_thw)[:, None]
      code = sys.modules[type(tower).__module__]
      one = (torch.zeros(found.shape[:2], dtype=torch.long), torch.ones(found.shape[:2]))
      with mock.patch.object(tower.pos_embed, "forward", lambda indices: found), \
           mock.patch.object(code, "get_vision_interpolation_indices_and_weights", lambda *_, **__: one):
        return forward(states, grid_thw, **named)
    return call

  for tower in of_towers(model):
    if hasattr(tower, "pos_embed"):
      tower.forward = wrapped(tower, tower.forward)


def wrap(model, patch):
  """Makes the model run under a patch."""
  forward = model.forward

  def call(*words, **named):
    with patch():
      return forward(*words, **named)
  model.forward = call


def single_windows(model):
  """Makes a sound's tokens see only those of their own window of the convolutions, like in MaxText."""
  # Source: AI-Hypercomputer/maxtext models/qwen3.py Qwen3OmniAudioEncoder, whose batch is of windows.
  for module in of_towers(model):
    if hasattr(module, "n_window_infer"):
      module.n_window_infer = 2 * module.n_window


CHANGES = {"tanh_gelu": tanh_gelu, "rounded_positions": rounded_positions, "single_windows": single_windows}
