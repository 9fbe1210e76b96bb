"""Decode photos and cut the views for training and evaluation, as the paper does on ImageNet."""

import math
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch.nn import functional

__all__ = [
    "SIZE",
    "SUFFIXES",
    "DamagedPhotoError",
    "crop_box",
    "decode",
    "evaluation_view",
    "jittered",
    "training_view",
]

SIZE = 224
SUFFIXES = frozenset(
    (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm")
)

GREY = (0.299, 0.587, 0.114)  # of each channel, as Pillow's mode L


class DamagedPhotoError(ValueError):
    """The content of a file is not a photo."""


def decode(path: Path) -> Image.Image:
    """Read a photo as RGB; a ValueError names a file that cannot be read or decoded."""
    try:
        with Image.open(path) as image:
            if image.mode == "RGB":
                image.load()
                return image  # convert would copy it
            # palettes go through RGBA, because Pillow warns about every transparent one otherwise
            return (image.convert("RGBA") if image.mode == "P" else image).convert("RGB")
    except MemoryError:
        raise
    except Exception as error:  # Pillow's decoders raise whatever the damage leads to
        if isinstance(error, OSError) and error.errno is not None:
            # an error of the disk, not of the photo: it may be readable later
            raise ValueError(f"photo {str(path)!r} cannot be read: {error.strerror}") from error
        raise DamagedPhotoError(f"photo {str(path)!r} cannot be decoded: {error}") from error


def evaluation_view(image: Image.Image, size: int = SIZE) -> NDArray[np.uint8]:
    """Resize to 256 x 256, for a size of 224, and cut out the centre, as (H, W, C)."""
    whole = round(size * 256 / SIZE)
    margin = (whole - size) // 2
    return resized(image, whole)[margin : margin + size, margin : margin + size]


def training_view(
    image: Image.Image, random: np.random.Generator, size: int = SIZE
) -> NDArray[np.uint8]:
    """A random crop with jittered colours, mirrored half of the time, as (H, W, C)."""
    left, top, width, height = crop_box(image.width, image.height, random)
    view = image.crop((left, top, left + width, top + height))
    brightness, contrast, saturation, mirrored = random.random(4).tolist()
    view = jittered(view, 0.6 + 0.8 * brightness, 0.6 + 0.8 * contrast, 0.6 + 0.8 * saturation)
    if mirrored < 0.5:
        view = view.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    return resized(view, size)


def resized(image: Image.Image, size: int) -> NDArray[np.uint8]:
    """As Pillow's resize with its bilinear filter, to one of 255 levels, in less time."""
    x = torch.from_numpy(np.array(image))[None].permute(0, 3, 1, 2)
    small = functional.interpolate(x, (size, size), mode="bilinear", antialias=True)
    return small[0].permute(1, 2, 0).numpy()


def jittered(
    image: Image.Image, brightness: float, contrast: float, saturation: float
) -> Image.Image:
    """Multiply brightness, contrast and saturation, as Pillow's ImageEnhance does.

    Each is an affine map of the colours, so all three are one, in one pass over the pixels. Values
    are cut to 0..255 at its end alone, and then the order of the three makes no difference.
    """
    some = image.resize((16, 16), Image.Resampling.NEAREST)  # enough for a mean
    mean = sum(some.convert("L").tobytes()) / 256
    scale, shift = brightness * contrast, brightness * (1 - contrast) * mean
    red, green, blue = (scale * (1 - saturation) * weight for weight in GREY)
    own = scale * saturation
    return image.convert(
        "RGB",
        (
            *(own + red, green, blue, shift),
            *(red, own + green, blue, shift),
            *(red, green, own + blue, shift),
        ),
    )


def crop_box(width: int, height: int, random: np.random.Generator) -> tuple[int, int, int, int]:
    """Draw (left, top, width, height) with 8 to 100 % of the area and sides of 3:4 to 4:3."""
    low, high = math.log(3 / 4), math.log(4 / 3)
    for _ in range(10):
        area = width * height * random.uniform(0.08, 1.0)
        ratio = math.exp(random.uniform(low, high))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            left, top = random.integers(width - w + 1), random.integers(height - h + 1)
            return int(left), int(top), w, h
    # very long or very small photos: the largest centred box of an allowed ratio
    w = min(width, max(1, round(height * 4 / 3)))
    h = min(height, max(1, round(width * 4 / 3)))
    return (width - w) // 2, (height - h) // 2, w, h
