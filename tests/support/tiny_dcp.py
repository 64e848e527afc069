#!/usr/bin/env python3
"""Writes a small checkpoint of torch.distributed.checkpoint without torch: a model, and objects next to it.

    tiny_dcp.py OUT [--lr X] [--as-dict] [--release N] [--pad N] [--cut N] [--packed] [--odd] [--groups] [--model FILE]

The state is {"model": {"w": 4x3 of f32}, "optimizer": {"param_groups": [{"lr": X}]}, "layers": [2 of f32, "text"],
"flag": True}. --as-dict: `layers` was a dict with the keys "0" and "1". --release: the archive has the records of
another torch release. --pad: the last object's archive has this many more bytes. --cut: the metadata states that the
last object is this many bytes longer than its file. --packed: objects went through zstd, which stored them unchanged.
--odd: layers.0 has a dtype without plain elements. --groups: param_groups is [{"lr": X, "weight_decay": X}, {"lr": X}]. --model:
instead of w, `model` has the arrays of this safetensors file of f32.
"""

import argparse
import io
import json
import os
import pickle
import struct
import zipfile

MODULES = {"torch": ("Size", "float32", "qint8"), "torch.serialization": ("_get_layout",),
           "torch.distributed.checkpoint.metadata": ("Metadata", "TensorStorageMetadata", "TensorProperties", "ChunkStorageMetadata",
                                                     "BytesStorageMetadata", "MetadataIndex", "_MEM_FORMAT_ENCODING"),
           "torch.distributed.checkpoint.filesystem": ("_StorageInfo",)}


class Named:
    """A class or function of torch by its names alone, and the arguments of its call."""

    def __init__(self, module, name):
        self.module, self.name = module, name

    def __call__(self, *arguments):
        return Call(self, arguments)

    def of(self, **members):
        """Returns an instance of a dataclass with these members."""
        return Call(self, (), members)


class Call:
    def __init__(self, callee, arguments, state=None):
        self.callee, self.arguments, self.state = callee, arguments, state


class Writer(pickle._Pickler):
    """Python's own pickler, for names instead of classes."""

    def save(self, value, save_persistent_id=True):
        if isinstance(value, Named):
            self.write(pickle.GLOBAL + f"{value.module}\n{value.name}\n".encode())
        elif isinstance(value, Call):
            self.save(value.callee)
            self.save(value.arguments)
            self.write(pickle.REDUCE if value.state is None else pickle.NEWOBJ)
            if value.state:
                self.save(value.state)
                self.write(pickle.BUILD)
        else:
            super().save(value, save_persistent_id)


def pickled(value):
    out = io.BytesIO()
    Writer(out, 2).dump(value)
    return out.getvalue()


def archive(records):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as file:
        for name, data in records.items():
            file.writestr(zipfile.ZipInfo("archive/" + name), data)
    return out.getvalue()


def tensor_item(data, shape):
    """Returns the bytes that torch.save makes for a tensor of f32."""
    strides = [1] * len(shape)
    for d in range(len(shape) - 1, 0, -1):
        strides[d - 1] = strides[d] * shape[d]
    out = io.BytesIO()
    writer = Writer(out, 2)
    storage = ("storage", Named("torch", "FloatStorage"), "0", "cpu", len(data) // 4)
    marker = object()
    writer.persistent_id = lambda value: storage if value is marker else None
    writer.dump(Named("torch._utils", "_rebuild_tensor_v2")(marker, 0, tuple(shape), tuple(strides), False, {}))
    return archive({"data.pkl": out.getvalue(), "byteorder": b"little", "data/0": data, "version": b"3\n"})


def arrays_of(file):
    """Returns name, shape and bytes of each array of a safetensors file."""
    with open(file, "rb") as stored:
        header = json.loads(stored.read(struct.unpack("<Q", stored.read(8))[0]))
        data = stored.read()
    header.pop("__metadata__", None)
    return {name: (tuple(item["shape"]), data[slice(*item["data_offsets"])]) for name, item in header.items()}


def object_item(value, release, pad):
    records = {"data.pkl": pickled(value), ".format_version": b"1", "byteorder": b"little", "version": b"3\n",
               ".data/serialization_id": b"%040d" % release}
    if pad:
        records["data/0"] = b"\0" * pad
    if release > 1:
        del records[".format_version"]
    return archive(records)


def zstd_frame(data):
    """Returns a zstd frame of one raw block."""
    assert len(data) <= 1 << 17
    return b"\x28\xb5\x2f\xfd\xa0" + struct.pack("<II", len(data), len(data) << 3 | 1)[:7] + data


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--lr", type=float, default=0.125)
    parser.add_argument("--as-dict", action="store_true")
    parser.add_argument("--release", type=int, default=1)
    parser.add_argument("--pad", type=int, default=0)
    parser.add_argument("--cut", type=int, default=0)
    parser.add_argument("--packed", action="store_true")
    parser.add_argument("--odd", action="store_true")
    parser.add_argument("--groups", action="store_true")
    parser.add_argument("--model")
    args = parser.parse_args()
    known = {name: {each: Named(name, each) for each in names} for name, names in MODULES.items()}
    metadata, torch = known["torch.distributed.checkpoint.metadata"], known["torch"]
    layout, memory = known["torch.serialization"]["_get_layout"]("torch.strided"), metadata["_MEM_FORMAT_ENCODING"](0)
    plain, odd = (Call(metadata["TensorProperties"], (), (torch[dtype], layout, False, memory, False)) for dtype in ("float32", "qint8"))
    index = str if args.as_dict else int
    model = arrays_of(args.model) if args.model else {"w": ((4, 3), struct.pack("<12f", *range(12)))}
    tensors = {"layers.0": ((2,), ("layers", index(0)), struct.pack("<2f", 0, 1)),
               **{f"model.{name}": (shape, ("model", name), values) for name, (shape, values) in model.items()}}
    objects = {"flag": (True, ("flag",)), "layers.1": ("text", ("layers", index(1))),
               "optimizer.param_groups.0.lr": (args.lr, ("optimizer", "param_groups", 0, "lr"))}
    if args.groups:
        for group, key in ((0, "weight_decay"), (1, "lr")):
            objects[f"optimizer.param_groups.{group}.{key}"] = (args.lr, ("optimizer", "param_groups", group, key))
    described, planner, places, data = {}, {}, {}, b""
    info = known["torch.distributed.checkpoint.filesystem"]["_StorageInfo"]

    def place(index_of, item, longer=0, **more):
        nonlocal data
        places[index_of] = info.of(relative_path="__0_0.distcp", offset=len(data), length=len(item) + longer, **more)
        data += item

    for name, (shape, path, values) in tensors.items():
        size, zeros = torch["Size"](tuple(shape)), torch["Size"]((0,) * len(shape))
        chunk = metadata["ChunkStorageMetadata"].of(offsets=zeros, sizes=size)
        properties = odd if args.odd and name == "layers.0" else plain
        described[name] = metadata["TensorStorageMetadata"].of(properties=properties, size=size, chunks=[chunk])
        planner[name] = path
        place(metadata["MetadataIndex"].of(fqn=name, offset=zeros, index=0), tensor_item(values, shape))
    for name, (value, path) in objects.items():
        described[name] = Call(metadata["BytesStorageMetadata"], (), {})
        planner[name] = path
        last = name == max(objects)
        item = object_item(value, args.release, args.pad if last else 0)
        place(metadata["MetadataIndex"].of(fqn=name, index=None), zstd_frame(item) if args.packed else item, args.cut if last else 0,
              **({"transform_descriptors": ["stream.zstd/1"]} if args.packed else {}))
    os.makedirs(args.out)
    with open(os.path.join(args.out, "__0_0.distcp"), "wb") as file:
        file.write(data)
    with open(os.path.join(args.out, ".metadata"), "wb") as file:
        file.write(pickled(metadata["Metadata"].of(state_dict_metadata=described, planner_data=planner, storage_data=places)))


if __name__ == "__main__":
    main()
