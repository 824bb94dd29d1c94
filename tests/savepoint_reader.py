"""Reads a savepoint as docs/state.md describes it, with nothing but Python's standard library, holds every
checksum against it, and prints what it holds as JSON. Usage: savepoint_reader.py FOLDER"""

import hashlib, json, os, struct, sys

CRC32C = []
for byte in range(256):
    for _ in range(8):
        byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
    CRC32C.append(byte)


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ CRC32C[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def check(condition, what):
    if not condition:
        sys.exit(f"not a savepoint as documented: {what}")


class Reader:
    """Big-endian numbers and strings with their length, one behind the other."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, length):
        check(self.at + length <= len(self.data), f"ends at byte {self.at}")
        self.at += length
        return self.data[self.at - length:self.at]

    def number(self, code):
        return struct.unpack(">" + code, self.take(struct.calcsize(">" + code)))[0]

    def flag(self):
        byte = self.number("B")
        check(byte in (0, 1), "a flag is neither 0 nor 1")
        return byte == 1

    def option(self):
        present, value = self.flag(), self.number("q")
        return value if present else None

    def id(self):
        return self.take(16).hex()

    def text(self):
        return self.take(self.number("I")).decode("utf-8")

    def list(self, item):
        return [item() for _ in range(self.number("I"))]

    def varint(self):
        value = shift = 0
        while True:
            byte = self.number("B")
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def end(self):
        check(self.at == len(self.data), "bytes are left over")


def frame(data, magic, version):
    """The body of the frame at the beginning of data, and the length of the frame."""
    head = Reader(data)
    check(head.take(8) == magic, f"magic is not {magic}")
    found, length = head.number("H"), head.number("I")
    check(found == version, f"format version {found}")
    body = Reader(head.take(length))
    check(head.number("I") == crc32c(data[:14 + length]), "checksum of a frame")
    return body, 14 + length + 4


def manifest(data):
    r, length = frame(data, b"MSSAVEP\n", 1)
    check(length == len(data), "bytes behind the frame")
    state = lambda: {"name": r.text(), "schema": r.text()}
    operator = lambda: {"uid": r.text(), "kind": r.text(), "states": r.list(state)}
    position = lambda: {
        "source": r.text(), "topic": r.text(), "topic_id": r.id(), "partition": r.number("i"),
        "offset": r.number("q"), "leader_epoch": r.number("i"), "max_event_time": r.option(), "finished": r.flag()}
    saved = lambda: {
        "operator": r.text(), "state": r.text(), "entries": r.number("Q"), "bytes": r.number("Q"),
        "sha256": r.take(32).hex()}
    found = {"id": r.id(), "created": r.number("q"), "program": r.text(),
             "trigger": ["live", "stop", "drain", "directory"][r.number("B")],
             "job": r.text(), "max_parallelism": r.number("H"), "operators": r.list(operator),
             "checkpoint": r.number("Q"), "nonce": r.id(), "lineage": r.id(),
             "status": ["running", "finished"][r.number("B")], "ledger_partition": r.number("i"),
             "ledger_offset": r.option(), "ledger_topic_id": r.id(), "positions": r.list(position),
             "watermarks": r.list(lambda: {"operator": r.text(), "watermark": r.number("q")}),
             "states": r.list(saved)}
    r.end()
    return found


def entries(data, savepoint, saved):
    check(len(data) == saved["bytes"], "length of a state file")
    check(hashlib.sha256(data).hexdigest() == saved["sha256"], "SHA-256 of a state file")
    header, at = frame(data, b"MSSTATE\n", 1)
    check((header.id(), header.text(), header.text(), header.number("H"))
          == (savepoint["id"], saved["operator"], saved["state"], savepoint["max_parallelism"]), "header of a state file")
    header.end()
    file, found, blocks, last = Reader(data), [], 0, b""
    file.at = at
    while file.number("B") == 1:
        begin, block = file.at - 1, Reader(file.take(file.number("I")))
        check(crc32c(data[begin:file.at]) == file.number("I"), "checksum of a block")
        blocks += 1
        while block.at < len(block.data):
            key, value = block.take(block.number("I")), block.take(block.number("I"))
            check(last < key and struct.unpack(">H", key[:2])[0] < savepoint["max_parallelism"], "order of keys")
            found.append([key.hex(), value.hex()])
            last = key
    begin = file.at - 1
    check(data[begin] == 0 and (file.number("Q"), file.number("Q")) == (blocks, len(found)), "end of a state file")
    check(crc32c(data[begin:file.at]) == file.number("I"), "checksum of the end")
    file.end()
    check(len(found) == saved["entries"], "number of entries")
    return found


def decoded(key, value, timer):
    """An entry of a process function's state."""
    k, v = Reader(bytes.fromhex(key)), Reader(bytes.fromhex(value))
    entry = {"group": k.number("H")}
    if timer:
        entry["time"] = k.number("Q") - (1 << 63)
    entry["key"] = k.take(k.varint()).hex()
    entry["namespace"] = k.take(k.varint()).hex()
    entry["rest"] = k.data[k.at:].hex()
    if timer:
        check(not v.data and not entry["rest"], "a timer has no more than its key")
    else:
        entry["expiry"] = v.varint()
        entry["value"] = v.data[v.at:].hex()
    return entry


folder = sys.argv[1]
with open(os.path.join(folder, "SAVEPOINT"), "rb") as file:
    savepoint = manifest(file.read())
for index, saved in enumerate(savepoint["states"]):
    with open(os.path.join(folder, f"state-{index:05}.data"), "rb") as file:
        saved["content"] = entries(file.read(), savepoint, saved)
    kind = next(o["kind"] for o in savepoint["operators"] if o["uid"] == saved["operator"])
    if kind == "process":
        timer = saved["state"].startswith("timers/")
        saved["decoded"] = [decoded(key, value, timer) for key, value in saved["content"]]
json.dump(savepoint, sys.stdout)
