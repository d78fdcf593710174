"""Decode the content codings of bodies, so that their texts can be searched, and compress bodies again."""

import zlib
from collections.abc import Callable
from typing import Final

import brotli
import zstandard

from fastopen.pages import budget

# Maximum number of bytes to which a body is decoded, because a small body may decode to any size.
MAX_TEXT_BYTES: Final = 16 * 2**20
_DAMAGE: Final = (zlib.error, brotli.error, zstandard.ZstdError)


def unpacked(body: bytes, codings: str) -> bytes | None:
    """Decode a body that has the Content-Encoding `codings`, such as `gzip`. Return None if this fails. If
    the body was cut short, return the part before the cut. If it is text that is not encoded, return it
    unchanged, because some archivers decode bodies but keep the header."""
    for coding in reversed([name.strip().lower() for name in codings.split(",") if name.strip()]):
        if coding == "identity":
            continue
        decode = _DECODERS.get(coding)
        if decode is None:
            return None
        try:
            body = decode(body)
        except _DAMAGE:
            # Markup and scripts have no bytes below 9 (tab). Most encoded bodies have some near the start.
            return body if body and all(byte >= 9 for byte in body[:512]) else None
        budget.spend(len(body))
    return body


def is_coded(body: bytes, codings: str) -> bool:
    """Return True if a body that begins with `body` really has the content coding that its Content-Encoding
    names, and False if the archiver has decoded it. Return True for codings that fastopen cannot decode."""
    last = codings.rpartition(",")[2].strip().lower()
    decode = _DECODERS.get(last)
    if decode is None or not body:
        return decode is None
    try:
        decode(body)
    except _DAMAGE:
        return False
    return True


def packed(body: bytes) -> bytes:
    """Compress a body with gzip, as servers do, at zlib's default level 6."""
    packer = zlib.compressobj(6, zlib.DEFLATED, zlib.MAX_WBITS | 16)
    return packer.compress(body) + packer.flush()


def _gzip(body: bytes) -> bytes:
    return zlib.decompressobj(wbits=zlib.MAX_WBITS | 32).decompress(body, MAX_TEXT_BYTES)


def _deflate(body: bytes) -> bytes:
    """Decode deflate with zlib's header, as RFC 9110 requires, or without it, as some servers send it."""
    try:
        return _gzip(body)
    except zlib.error:
        return zlib.decompressobj(wbits=-zlib.MAX_WBITS).decompress(body, MAX_TEXT_BYTES)


_DECODERS: Final[dict[str, Callable[[bytes], bytes]]] = {
    **dict.fromkeys(("gzip", "x-gzip"), _gzip),
    "deflate": _deflate,
    "br": lambda body: bytes(brotli.Decompressor().process(body, output_buffer_limit=MAX_TEXT_BYTES)),
    "zstd": lambda body: zstandard.ZstdDecompressor().stream_reader(body).read(MAX_TEXT_BYTES),
}
