"""Reads the parts of ZIP archives that documents are (DOCX, PPTX, XLSX, EPUB), within limits and never to disk."""

from __future__ import annotations

import posixpath
import zipfile
import zlib
from typing import BinaryIO
from urllib.parse import unquote

from lxml import etree

from documents.errors import DamagedFile, EncryptedFile, FileTooLarge
from documents.parsing.xml_trees import attribute, parse_xml

MAX_ENTRIES = 20_000
"""Files in an archive, at most."""
MAX_PART_BYTES = 96 * 2**20
"""Uncompressed bytes of a part that is read, at most."""
MAX_READ_BYTES = 256 * 2**20
"""Uncompressed bytes of all parts that are read, at most."""
_ENCRYPTED = 0x1
_RELATIONSHIPS = "{http://schemas.openxmlformats.org/package/2006/relationships}Relationship"


class Archive:
    """A ZIP archive whose parts are read into memory by name. Sizes are checked before a part is inflated."""

    def __init__(self, file: BinaryIO) -> None:
        try:
            self._zip = zipfile.ZipFile(file)
        except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError, UnicodeDecodeError) as error:
            raise DamagedFile("The file is damaged: it is an incomplete archive.") from error
        if len(self._zip.filelist) > MAX_ENTRIES:
            raise FileTooLarge(f"The file has more than {MAX_ENTRIES:,} parts.")
        self._left = MAX_READ_BYTES

    def __contains__(self, name: str) -> bool:
        return name in self._zip.NameToInfo

    @property
    def names(self) -> list[str]:
        """Names of the archive's parts."""
        return list(self._zip.NameToInfo)

    def read(self, name: str) -> bytes:
        """Return the bytes of the part `name`.

        Raises:
            DamagedFile: the part is missing, or can't be inflated.
            EncryptedFile: it needs a password.
            FileTooLarge: it has more than `MAX_PART_BYTES`, or all parts read have more than `MAX_READ_BYTES`.
        """
        info = self._zip.NameToInfo.get(name)
        if info is None:
            raise DamagedFile("The file is damaged: a part of it is missing.")
        if info.flag_bits & _ENCRYPTED:
            raise EncryptedFile("The file is encrypted: save it without a password.")
        self.admit(info.file_size)
        try:
            return self._zip.read(info)
        except (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, NotImplementedError) as error:
            raise DamagedFile("The file is damaged: a part of it can't be inflated.") from error

    def admit(self, size: int) -> None:
        """Count `size` bytes that are about to be inflated, and raise `FileTooLarge` if they are too many."""
        self._left -= size
        if size > MAX_PART_BYTES or self._left < 0:
            raise FileTooLarge(f"The file's compressed parts have more than {MAX_READ_BYTES // 2**20} MiB.")

    def size(self, name: str) -> int:
        """Return the uncompressed size in bytes that the archive declares for a part; reading it yields no more."""
        return self._zip.NameToInfo[name].file_size

    def xml(self, name: str) -> etree._Element:
        """Return the root element of the XML part `name`; raises as `read` does."""
        return parse_xml(self.read(name))

    def related(self, name: str) -> dict[str, tuple[str, str]]:
        """Return the relationships of an Office part: by id, the last word of the type and the target's name.

        `name` is empty for those of the whole file. Targets outside the file are left out.
        """
        folder, base = posixpath.split(name)
        source = posixpath.join(folder, "_rels", f"{base}.rels")
        if source not in self:
            return {}
        found = {}
        for each in self.xml(source).iter(_RELATIONSHIPS):
            if attribute(each, "TargetMode") != "External":
                kind = attribute(each, "Type").rpartition("/")[2]
                found[attribute(each, "Id")] = (kind, resolve(folder, attribute(each, "Target")))
        return found


def resolve(folder: str, target: str) -> str:
    """Return the name of the part that `target` leads to from a part in `folder`; outside the archive there is none."""
    path = unquote(target.partition("#")[0])
    joined = path if path.startswith("/") else posixpath.join("/", folder, path)
    return posixpath.normpath(joined).lstrip("/")
