"""Exceptions of documents: a file that is refused, with a sentence for people, or a parser that this machine lacks.

DocumentError
├── FileRefused
│   ├── UnsupportedFormat, EncryptedFile, DamagedFile
│   └── FileTooLarge
└── ParserUnavailable
"""


class DocumentError(Exception):
    """Base class of all errors of `documents`."""


class FileRefused(DocumentError):
    """Base of the errors of a file that has no text to offer; the message is a sentence for people."""


class UnsupportedFormat(FileRefused):
    """The file has a format that is not read."""


class EncryptedFile(FileRefused):
    """The file is encrypted, with a password or by rights management."""


class DamagedFile(FileRefused):
    """The file breaks the rules of its format."""


class FileTooLarge(FileRefused):
    """The file, or reading it, exceeds a limit: bytes, pages, text, memory or time."""


class ParserUnavailable(DocumentError):
    """This machine can't confine a parser process, so that no file is read."""
