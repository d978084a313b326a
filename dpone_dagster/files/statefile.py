"""One campaign's state as a file: read whole, written whole under its lock, and refused where it is anything else."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from dpone_dagster.campaign.errors import (
    CampaignActive,
    DponeError,
    StateFileBroken,
    StateFileUnusable,
    StateVersionNewer,
)
from dpone_dagster.faultpoints import reach
from dpone_dagster.files.fileshape import misfits

FORMAT = "dpone-backfill-state"
VERSION = 1
_LOCK_SECONDS = 30.0
_LOOK_SECONDS = 0.01
Document = dict[str, Any]


class StateFile:
    """`<run_key>.json` in a folder, and the lock beside it, whose file stays: who holds it, holds the file.

    Every change is made to a copy that is written, flushed to the disk and renamed over the file. A process that dies
    at any moment leaves the file of before or the file of after; the kernel frees its lock.

    Args:
        folder: Where the files are.
        run_key: The campaign.
    """

    def __init__(self, folder: Path, run_key: str) -> None:
        self._run_key = run_key
        self.path = folder / f"{run_key}.json"
        self._lock_path = folder / f"{run_key}.lock"
        self._guard = threading.RLock()
        self._changing: Document | None = None
        self._sound = ""  # the text that was found right, or written, last

    def read(self) -> Document | None:
        """What the file says, or what this thread's open change makes of it; None if there is no file.

        Raises:
            StateFileBroken: It is torn, was edited, or is no state file of this campaign.
            StateFileUnusable: It may not be read.
            StateVersionNewer: A newer program wrote it.
        """
        with self._guard:
            return self._changing if self._changing is not None else self._load()

    @contextlib.contextmanager
    def change(self) -> Iterator[Document]:
        """The document to change, under the file's lock; stored at the end, and not if an exception ends the block.

        A change inside a change is part of it.

        Raises:
            CampaignActive: Another process keeps the lock.
            StateFileUnusable: The folder or the file cannot be written.
        """
        with self._guard:
            if self._changing is not None:
                yield self._changing
                return
            with self._locked():
                found = self._load()
                before = "" if found is None else _text(found)
                self._changing = {} if found is None else found
                try:
                    yield self._changing
                    if self._changing and (after := _text(self._changing)) != before:
                        self._store(after)
                finally:
                    self._changing = None

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            handle: IO[bytes] = self._lock_path.open("a+b", buffering=0)
        except OSError as error:
            raise StateFileUnusable(f"{self._lock_path} cannot be opened: {error.strerror}") from error
        with handle:
            self._take(handle)
            _name_holder(handle, f"process {os.getpid()} on {socket.gethostname()}")
            try:
                yield
            finally:
                _name_holder(handle, "")  # closing the file frees the lock

    def _take(self, handle: IO[bytes]) -> None:
        """Wait for the lock, but not for ever: a stopped process keeps it.

        Raises:
            CampaignActive: Somebody keeps it; the message names who, as far as it is known.
        """
        deadline = time.monotonic() + _LOCK_SECONDS
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                if time.monotonic() >= deadline:
                    handle.seek(0)
                    named = handle.read().decode(errors="replace") or "another process"
                    raise CampaignActive(
                        f"{self._lock_path} was held for {_LOCK_SECONDS:g} s by {named}",
                        next_step=f"Wait and try again; `fuser {self._lock_path}` says who holds it.",
                    ) from error
                time.sleep(_LOOK_SECONDS)
            except OSError as error:
                raise StateFileUnusable(f"{self._lock_path} cannot be locked: {error.strerror}") from error
            else:
                return

    def _load(self) -> Document | None:
        try:
            text = self.path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StateFileUnusable(f"{self.path} cannot be read: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise StateFileBroken(f"{self.path} is no text") from error
        try:
            found = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise StateFileBroken(f"{self.path} is torn or was edited: {error}") from error
        proven = self._proven(found)
        if text != self._sound and (findings := misfits(text)):
            raise StateFileBroken(f"{self.path} was edited: no state is made of it", findings=findings)
        self._sound = text
        return proven

    def _proven(self, found: Any) -> Document:
        if not isinstance(found, dict) or found.get("format") != FORMAT:
            raise StateFileBroken(f"{self.path} is no state file of a campaign")
        version = found.get("version")
        if not isinstance(version, int) or isinstance(version, bool) or version < 1:
            raise StateFileBroken(f"{self.path} does not say its version")
        if version > VERSION:
            raise StateVersionNewer(f"{self.path} has version {version}, this program knows {VERSION}")
        campaign, chunks = found.get("campaign"), found.get("chunks")
        if not isinstance(campaign, dict) or not isinstance(chunks, list):
            raise StateFileBroken(f"{self.path} lacks its campaign or its chunks")
        if campaign.get("run_key") != self._run_key:
            raise StateFileBroken(f"{self.path} is the state of another campaign")
        if [isinstance(each, dict) and each.get("chunk_index") for each in chunks] != list(range(len(chunks))):
            raise StateFileBroken(f"{self.path} does not list its chunks in order")
        if len(chunks) != campaign.get("chunk_count"):
            raise StateFileBroken(f"{self.path} has {len(chunks)} chunks, not {campaign.get('chunk_count')}")
        return found

    def _store(self, text: str) -> None:
        written = self.path.with_suffix(".json.new")  # nobody else writes it: the lock is ours
        half = len(text) // 2
        try:
            with written.open("w", encoding="utf-8") as handle:
                handle.write(text[:half])
                handle.flush()
                reach("mid_state_file")
                handle.write(text[half:])
                handle.flush()
                os.fsync(handle.fileno())
            os.replace(written, self.path)
            self._sound = text
            _flush_folder(self.path.parent)
        except OSError as error:
            raise StateFileUnusable(f"{self.path} cannot be written: {error.strerror}") from error


def _name_holder(handle: IO[bytes], name: str) -> None:
    """Say in the lock's file who has it; a courtesy, which a full disk may refuse."""
    with contextlib.suppress(OSError):
        handle.truncate(0)
        handle.write(name.encode())


def _flush_folder(folder: Path) -> None:
    """Without this the rename may be lost with the machine's power, though not with the process."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _text(document: Mapping[str, Any]) -> str:
    """JSON for people: the campaign's facts one a line, then a chunk a line."""
    if not isinstance(document.get("chunks"), list):
        raise DponeError("a state file without chunks is not written")
    lines = [json.dumps(chunk, ensure_ascii=False) for chunk in document["chunks"]]
    chunks = "[\n    " + ",\n    ".join(lines) + "\n  ]" if lines else "[]"
    parts = [
        f"{json.dumps(name)}: {chunks if name == 'chunks' else json.dumps(value, ensure_ascii=False, indent=2)}"
        for name, value in document.items()
    ]
    return "{\n  " + ",\n  ".join(parts) + "\n}\n"
