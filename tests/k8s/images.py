"""Container images without a registry or a daemon: two tags on one busybox, as `ctr images import` reads them."""

import hashlib
import io
import json
import tarfile
from pathlib import Path

BUSYBOX = "localhost/busybox:1"
PAUSE = "localhost/pause:1"
MISSING = "localhost/no-such-image:1"

_COMMANDS = {PAUSE: ["/bin/sleep", "2147483647"], BUSYBOX: ["/bin/sh"]}
_APPLETS = """
sh echo sleep cat ls true false env id date hostname kill ps wget head tail printf test uname seq cp mv rm mkdir chmod
chown tar gunzip dd awk sed grep yes touch stat sha256sum mktemp timeout
"""
_PASSWD = b"root:x:0:0:root:/:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n"


def write_images(archive: Path, *, busybox: Path) -> None:
    """Write the archive, of a busybox that is linked statically."""
    layer = _layer(busybox.read_bytes())
    digest = hashlib.sha256(layer).hexdigest()
    manifest = []
    with tarfile.open(archive, "w") as tar:
        for tag, command in _COMMANDS.items():
            config = json.dumps(
                {
                    "architecture": "amd64",
                    "os": "linux",
                    "config": {"Env": ["PATH=/bin"], "Cmd": command, "WorkingDir": "/"},
                    "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
                }
            ).encode()
            name = f"{hashlib.sha256(config).hexdigest()}.json"
            _add(tar, name, config, mode=0o644)
            manifest.append({"Config": name, "RepoTags": [tag], "Layers": [f"{digest}/layer.tar"]})
        _add(tar, f"{digest}/layer.tar", layer, mode=0o644)
        _add(tar, "manifest.json", json.dumps(manifest).encode(), mode=0o644)


def _layer(busybox: bytes) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for folder in ("bin", "tmp", "etc", "proc", "sys", "dev", "var"):
            _add(tar, folder, mode=0o1777 if folder == "tmp" else 0o755, type=tarfile.DIRTYPE)
        _add(tar, "bin/busybox", busybox)
        _add(tar, "etc/passwd", _PASSWD, mode=0o644)
        for applet in _APPLETS.split():
            _add(tar, f"bin/{applet}", type=tarfile.SYMTYPE, linkname="busybox")
    return out.getvalue()


def _add(tar: tarfile.TarFile, name: str, content: bytes = b"", *, mode: int = 0o755, **fields: object) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    for field, value in fields.items():
        setattr(entry, field, value)
    tar.addfile(entry, io.BytesIO(content))
