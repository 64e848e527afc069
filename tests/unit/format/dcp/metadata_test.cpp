// Reads .metadata in the forms that torch allows but seldom writes.

#include "format/dcp/metadata.h"

#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "format/dcp/pickle_writer.h"
#include "format/pickle_opcodes.h"
#include "support/catch_error.h"

namespace hfshard::format::dcp {
namespace {

using Write = std::function<void(PickleWriter&)>;

constexpr std::string_view kClasses = "torch.distributed.checkpoint.metadata";

// Writes an instance of a dataclass, whose members follow.
void open_object(PickleWriter& write, std::string_view name, std::string_view module = kClasses) {
  write.global(module, name).op(Op::empty_tuple).op(Op::new_obj).op(Op::empty_dict).op(Op::mark);
}
void close_object(PickleWriter& write) { write.op(Op::set_items).op(Op::build); }

void write_minus_one(PickleWriter& write) {
  write.op(static_cast<Op>('J'));
  for (int i = 0; i < 4; ++i) write.op(static_cast<Op>(0xFFU));
}

void write_layout(PickleWriter& write, std::string_view name) {
  write.global("torch.serialization", "_get_layout").text(name).op(Op::tuple1).op(Op::reduce);
}

// One tensor "w" of 4x2, in two chunks of two rows. Each part can be replaced.
struct Parts {
  Write properties = [](PickleWriter& write) {
    write.op(Op::mark).global("torch", "float32");
    write_layout(write, "torch.strided");
    write.op(Op::new_false).integer(0).op(Op::new_false).op(Op::tuple);
  };
  Write size = [](PickleWriter& write) { write.integers({4, 2}); };
  Write first_offset = [](PickleWriter& write) { write.text("offset").integers({0, 0}); };
  Write place = [](PickleWriter& write) {
    write.text("relative_path").text("__0_0.distcp").text("offset").integer(100);
    write.text("length").integer(50);
  };
  Write more_described = [](PickleWriter&) {};
  Write more_stored = [](PickleWriter&) {};
  Write planner = [](PickleWriter&) {};
};

void write_chunk(PickleWriter& write, const Shape& begin, const Shape& extent) {
  open_object(write, "ChunkStorageMetadata");
  write.text("offsets").integers(begin).text("sizes").integers(extent);
  close_object(write);
}

void write_place(PickleWriter& write, std::string_view name, const Write& offset,
                 const Write& place) {
  open_object(write, "MetadataIndex");
  write.text("fqn").text(name);
  offset(write);
  close_object(write);
  open_object(write, "_StorageInfo", "torch.distributed.checkpoint.filesystem");
  place(write);
  close_object(write);
}

void write_object(PickleWriter& write, std::string_view name) {
  write.text(name).global(kClasses, "BytesStorageMetadata").op(Op::empty_tuple).op(Op::new_obj);
}

Metadata parsed(const Parts& parts, const std::vector<std::string>& without = {}) {
  std::string out;
  PickleWriter write(out);
  write.begin();
  open_object(write, "Metadata");
  write.text("state_dict_metadata").op(Op::empty_dict).op(Op::mark).text("w");
  open_object(write, "TensorStorageMetadata");
  write.text("properties").global(kClasses, "TensorProperties").op(Op::empty_tuple).op(Op::new_obj);
  parts.properties(write);
  write.op(Op::build).text("size");
  parts.size(write);
  write.text("chunks").op(Op::empty_list).op(Op::mark);
  write_chunk(write, {2, 0}, {2, 2});
  write_chunk(write, {0, 0}, {2, 2});
  write_chunk(write, {4, 0}, {0, 2});  // without elements, so without a place
  write.op(Op::appends);
  close_object(write);
  parts.more_described(write);
  write.op(Op::set_items).text("storage_data").op(Op::empty_dict).op(Op::mark);
  write_place(
      write, "w",
      [](PickleWriter& w) {
        w.text("offset").integers({2, 0});
      },
      [](PickleWriter& w) {
        w.text("relative_path").text("__1_0.distcp").text("offset").integer(0);
        w.text("length").integer(50).text("transform_descriptors").op(Op::none);
      });
  write_place(write, "w", parts.first_offset, parts.place);
  parts.more_stored(write);
  write.op(Op::set_items);
  parts.planner(write);
  close_object(write);
  write.op(Op::stop);
  return read_metadata(out, "memory", without);
}

Error refused(const Parts& parts) {
  return catch_error([&] { parsed(parts); });
}

void expect_two_chunks(const Metadata& found) {
  ASSERT_EQ(found.tensors.size(), 1U);
  const StoredTensor& tensor = found.tensors[0];
  EXPECT_EQ(tensor.dtype, DType::f32);
  EXPECT_EQ(tensor.shape, (Shape{4, 2}));
  ASSERT_EQ(tensor.boxes.size(), 2U);
  EXPECT_EQ(tensor.boxes[0].begin, (Shape{0, 0}));
  EXPECT_EQ(found.files[tensor.boxes[0].place.file], "__0_0.distcp");
  EXPECT_EQ(tensor.boxes[0].place.range(), (ByteRange{100, 150}));
  EXPECT_EQ(found.files[tensor.boxes[1].place.file], "__1_0.distcp");
  EXPECT_EQ(tensor.boxes[1].place.range(), (ByteRange{0, 50}));
}

Write named_properties(std::string_view layout) {
  return [layout](PickleWriter& write) {
    write.op(Op::empty_dict).op(Op::mark).text("dtype").global("torch", "float32").text("layout");
    write_layout(write, layout);
    write.op(Op::set_items);
  };
}

Write tuple_properties(std::string_view layout) {
  return [layout](PickleWriter& write) {
    write.global("torch", "float32");
    write_layout(write, layout);
    write.op(Op::tuple2);
  };
}

TEST(DcpMetadata, PropertiesAreATupleOrNamedMembers) {
  Parts parts;
  expect_two_chunks(parsed(parts));
  parts.properties = named_properties("torch.strided");
  expect_two_chunks(parsed(parts));
  parts.properties = tuple_properties("torch.strided");
  expect_two_chunks(parsed(parts));
  for (const Write& bad : {Write([](auto& write) { write.global("torch", "float32"); }),
                           Write([](auto& write) { write.op(Op::empty_tuple); }),
                           Write([](auto& write) { write.op(Op::empty_dict); })}) {
    parts.properties = bad;
    EXPECT_EQ(refused(parts).code(), ErrorCode::corrupt);
    EXPECT_EQ(refused(parts).tensor(), "w");
  }
}

TEST(DcpMetadata, PropertiesHaveAtMost64Members) {
  Parts parts;
  for (const int more : {62, 63}) {
    parts.properties = [more](PickleWriter& write) {
      write.op(Op::empty_dict).op(Op::mark).text("dtype").global("torch", "float32");
      write.text("layout");
      write_layout(write, "torch.strided");
      for (int i = 0; i < more; ++i) write.integer(static_cast<std::uint64_t>(i)).op(Op::none);
      write.op(Op::set_items);
    };
    if (more == 62) {
      expect_two_chunks(parsed(parts));
    } else {
      EXPECT_EQ(refused(parts).sentence(), "a tensor without a dtype");
    }
  }
}

TEST(DcpMetadata, OtherLayoutsAreRefusedInBothForms) {
  Parts parts;
  for (const Write& sparse :
       {named_properties("torch.sparse_coo"), tuple_properties("torch.sparse_coo")}) {
    parts.properties = sparse;
    const Error error = refused(parts);
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    EXPECT_EQ(error.tensor(), "w");
    EXPECT_NE(error.sentence().find("torch.sparse_coo"), std::string::npos) << error.sentence();
    const Metadata left = parsed(parts, {"w"});
    EXPECT_TRUE(left.tensors.empty());
    EXPECT_EQ(left.unreadable.size(), 1U);
  }
}

// Only the call that torch writes names a layout.
TEST(DcpMetadata, ALayoutWithoutANameIsNotRefused) {
  Parts parts;
  for (const Write& layout : {Write([](auto& write) { write.text("torch.sparse_coo"); }),
                              Write([](auto& write) { write.op(Op::empty_tuple); }),
                              Write([](auto& write) { write.integer(0).op(Op::tuple1); })}) {
    parts.properties = [layout](PickleWriter& write) {
      write.global("torch", "float32").global("torch.serialization", "_get_layout");
      layout(write);
      write.op(Op::reduce).op(Op::tuple2);
    };
    expect_two_chunks(parsed(parts));
  }
}

TEST(DcpMetadata, OtherDtypesAreRefusedByName) {
  Parts parts;
  for (const std::string_view name : {"quint8", "no_such_type"}) {
    parts.properties = [name](PickleWriter& write) {
      write.global("torch", name).op(Op::none).op(Op::tuple2);
    };
    EXPECT_EQ(refused(parts).code(), ErrorCode::unsupported);
    EXPECT_NE(refused(parts).sentence().find(name), std::string::npos);
  }
  parts.properties = [](PickleWriter& write) {
    write.global("numpy", "float32").op(Op::none).op(Op::tuple2);
  };
  EXPECT_EQ(refused(parts).code(), ErrorCode::unsupported);
}

TEST(DcpMetadata, AnIndexWithoutAnOffsetIsTheFirstChunks) {
  Parts parts;
  parts.first_offset = [](PickleWriter& write) { write.text("offset").op(Op::none); };
  expect_two_chunks(parsed(parts));
  parts.first_offset = [](PickleWriter&) {};
  expect_two_chunks(parsed(parts));
}

TEST(DcpMetadata, SizesAreATorchSizeATupleOrAList) {
  Parts parts;
  parts.size = [](PickleWriter& write) {
    write.global("torch", "Size").integers({4, 2}).op(Op::tuple1).op(Op::reduce);
  };
  expect_two_chunks(parsed(parts));
  parts.size = [](PickleWriter& write) {
    write.op(Op::empty_list).op(Op::mark).integer(4).integer(2).op(Op::appends);
  };
  expect_two_chunks(parsed(parts));
  for (const Write& bad :
       {Write([](auto& write) { write.integer(8); }),
        Write([](auto& write) { write.op(Op::none); }),
        Write([](auto& write) { write.text("4").text("2").op(Op::tuple2); }),
        Write([](auto& write) {
          write.global("torch", "Tensor").integers({4, 2}).op(Op::tuple1).op(Op::reduce);
        }),
        Write([](auto& write) {
          write.global("torch", "Size").integers({4, 2}).integers({4, 2});
          write.op(Op::tuple2).op(Op::reduce);
        }),
        Write([](auto& write) {
          write.integers({4, 3, 1});
        }),
        Write([](auto& write) {
          write.integers({3, 2});
        })}) {
    parts.size = bad;
    EXPECT_EQ(refused(parts).code(), ErrorCode::corrupt);
    EXPECT_EQ(refused(parts).tensor(), "w");
  }
}

TEST(DcpMetadata, EverythingDescribedHasAPlaceAndOnlyThat) {
  Parts parts;
  parts.first_offset = [](PickleWriter& write) { write.text("offset").integers({1, 0}); };
  const Error chunk = refused(parts);
  EXPECT_EQ(chunk.code(), ErrorCode::corrupt);
  EXPECT_EQ(chunk.tensor(), "w");
  EXPECT_NE(chunk.sentence().find("0x0"), std::string::npos) << chunk.sentence();
  parts = {};
  parts.more_described = [](PickleWriter& write) { write_object(write, "step"); };
  const Error object = refused(parts);
  EXPECT_EQ(object.code(), ErrorCode::corrupt);
  EXPECT_EQ(object.tensor(), "step");
  parts.more_stored = [](PickleWriter& write) {
    write_place(
        write, "step", [](auto&) {}, Parts().place);
  };
  EXPECT_EQ(parsed(parts).objects.size(), 1U);
  parts.more_described = [](PickleWriter&) {};
  EXPECT_EQ(refused(parts).code(), ErrorCode::corrupt) << "a place for nothing";
  parts.more_stored = [](PickleWriter&) {};
  parts.more_described = [](PickleWriter& write) { write_object(write, "w"); };
  EXPECT_EQ(refused(parts).code(), ErrorCode::corrupt) << "a key twice";
  parts.more_described = [](PickleWriter& write) { write_object(write, "w\xff"); };
  EXPECT_EQ(refused(parts).code(), ErrorCode::unsupported) << "no Unicode";
}

// Parts without elements have places too. Those belong to no other part.
TEST(DcpMetadata, APlaceOfNoPartChangesNoOther) {
  Parts parts;
  parts.more_stored = [](PickleWriter& write) {
    write_place(
        write, "w",
        [](PickleWriter& w) {
          w.text("offset").integers({1, 0});
        },
        [](PickleWriter& w) {
          w.text("relative_path").text("__9_0.distcp").text("offset").integer(0);
          w.text("length").integer(8);
        });
  };
  expect_two_chunks(parsed(parts));
}

TEST(DcpMetadata, TransformsAreAListOfTexts) {
  Parts parts;
  const auto with = [&](const Write& transforms) {
    parts.place = [transforms](PickleWriter& write) {
      Parts().place(write);
      write.text("transform_descriptors");
      transforms(write);
    };
  };
  with([](PickleWriter& write) { write.op(Op::empty_list); });
  expect_two_chunks(parsed(parts));
  EXPECT_FALSE(parsed(parts).tensors[0].boxes[0].place.zstd);
  with([](PickleWriter& write) { write.op(Op::empty_list).text("stream.zstd/1").op(Op::append); });
  EXPECT_TRUE(parsed(parts).tensors[0].boxes[0].place.zstd);
  EXPECT_FALSE(parsed(parts).tensors[0].boxes[1].place.zstd);
  with([](PickleWriter& write) {
    write.op(Op::empty_list).op(Op::mark).text("stream.zstd/1").text("stream.zstd/1");
    write.op(Op::appends);
  });
  EXPECT_EQ(refused(parts).code(), ErrorCode::unsupported) << "packed twice";
  with([](PickleWriter& write) { write.op(Op::empty_list).integer(1).op(Op::append); });
  EXPECT_EQ(refused(parts).code(), ErrorCode::unsupported) << "no text";
  for (const int count : {64, 65}) {
    with([count](PickleWriter& write) {
      write.op(Op::empty_list).op(Op::mark);
      for (int i = 0; i < count; ++i) write.text("x");
      write.op(Op::appends);
    });
    EXPECT_EQ(refused(parts).code(), count == 64 ? ErrorCode::unsupported : ErrorCode::corrupt);
  }
  with([](PickleWriter& write) { write.text("stream.zstd/1"); });
  EXPECT_EQ(refused(parts).code(), ErrorCode::corrupt) << "no list";
}

TEST(DcpMetadata, PlacesAreSizes) {
  Parts parts;
  parts.place = [](PickleWriter& write) {
    write.text("relative_path").text("__0_0.distcp").text("offset").op(Op::new_true);
    write.text("length").integer(1);
  };
  EXPECT_EQ(refused(parts).code(), ErrorCode::corrupt) << "no number";
  parts.place = [](PickleWriter& write) {
    write.text("relative_path").text("__0_0.distcp").text("length").integer(1);
  };
  EXPECT_EQ(refused(parts).code(), ErrorCode::corrupt) << "no offset";
  EXPECT_EQ(refused(parts).tensor(), "w");
  parts.place = [](PickleWriter& write) {
    write.text("relative_path").text("__0_0.distcp").text("offset");
    write_minus_one(write);
    write.text("length").integer(1);
  };
  EXPECT_EQ(refused(parts).sentence(), "an offset isn't a size");
  EXPECT_EQ(refused(parts).tensor(), "w");
}

TEST(DcpMetadata, OnlyTheDefaultPlannersDataAreKept) {
  const auto with = [](const Write& planner) {
    Parts parts;
    parts.planner = [planner](PickleWriter& write) {
      write.text("planner_data");
      planner(write);
    };
    return parsed(parts);
  };
  const auto with_index = [&](const Write& index) {
    return with([index](PickleWriter& write) {
      write.op(Op::empty_dict).op(Op::mark).text("w").op(Op::mark).text("model");
      index(write);
      write.op(Op::tuple).op(Op::set_items);
    });
  };
  const Metadata nested = with_index([](auto& write) { write.integer(1); });
  EXPECT_FALSE(nested.other_planner);
  ASSERT_EQ(nested.nested.size(), 1U);
  EXPECT_EQ(nested.nested[0].keys, R"(["model",1])");
  for (const Metadata& other : {with([](auto& write) { write.text("of another planner"); }),
                                with_index([](auto& write) { write_minus_one(write); }),
                                with_index([](auto& write) { write.op(Op::none); })}) {
    EXPECT_TRUE(other.other_planner);
    EXPECT_TRUE(other.nested.empty());
    expect_two_chunks(other);
  }
  const Metadata none = with([](auto& write) { write.op(Op::none); });
  EXPECT_FALSE(none.other_planner);
  EXPECT_TRUE(none.nested.empty());
}

// The sentences for a tensor, each with its name.
TEST(DcpMetadata, AWrongTensorSaysWhatIsWrong) {
  const auto said = [](const Parts& parts) {
    const Error error = refused(parts);
    EXPECT_EQ(error.tensor(), "w");
    EXPECT_EQ(error.file(), "memory");
    return error.sentence();
  };
  Parts parts;
  parts.size = [](auto& write) { write.integer(8); };
  EXPECT_EQ(said(parts), "a tensor's size isn't a torch.Size");
  parts.size = [](auto& write) {
    write.global("torch", "Tensor").integers({4, 2}).op(Op::tuple1).op(Op::reduce);
  };
  EXPECT_EQ(said(parts), "a tensor's size isn't a torch.Size");
  parts.size = [](auto& write) { write.text("4").text("2").op(Op::tuple2); };
  EXPECT_EQ(said(parts), "a tensor's size isn't a size");
  parts.size = [](auto& write) { write.integers({3, 2}); };
  EXPECT_EQ(said(parts), "a chunk of 2x2 at 2x0 is outside the tensor, which is 3x2");
  parts.size = [](auto& write) { write.integers({4, 3, 1}); };
  EXPECT_EQ(said(parts), "a chunk of 2x2 at 2x0 is outside the tensor, which is 4x3x1");
  parts = {};
  parts.properties = tuple_properties("torch.sparse_coo");
  EXPECT_EQ(said(parts), "a tensor with the layout \"torch.sparse_coo\", which hfshard can't read");
  parts.properties = [](auto& write) {
    write.global("numpy", "float32").op(Op::none).op(Op::tuple2);
  };
  EXPECT_EQ(said(parts), "a tensor of \"numpy.float32\", which hfshard can't read");
  parts = {};
  parts.first_offset = [](auto& write) { write.text("offset").integers({1, 0}); };
  EXPECT_EQ(said(parts), "the metadata don't say where the chunk at 0x0 is stored");
  parts.first_offset = [](auto& write) { write.text("offset").text("0"); };
  EXPECT_EQ(said(parts), "a chunk's place isn't a torch.Size");
  parts = {};
  parts.place = [](auto& write) {
    Parts().place(write);
    write.text("transform_descriptors").op(Op::empty_list).op(Op::mark);
    write.text("stream.zstd/1").integer(1).op(Op::appends);
  };
  EXPECT_EQ(said(parts), "an item went through \"stream.zstd/1, ?\", which hfshard can't undo");
  parts.place = [](auto& write) {
    Parts().place(write);
    write.text("transform_descriptors").text("stream.zstd/1");
  };
  EXPECT_EQ(said(parts), "transforms that aren't a list");
  parts.place = [](auto& write) { write.text("relative_path").text("../x"); };
  EXPECT_EQ(said(parts), "the file \"../x\" isn't in the checkpoint's directory");
  parts.place = [](auto& write) {
    write.text("relative_path").text("x").text("offset").integer(0).text("length").text("1");
  };
  EXPECT_EQ(said(parts), "a length isn't a size");
}

// A class with a similar name isn't torch's.
TEST(DcpMetadata, EntriesThatAreNotOfTorchAreRefused) {
  const auto described = [](const Write& entry) {
    Parts parts;
    parts.more_described = entry;
    return refused(parts);
  };
  EXPECT_EQ(described([](auto& write) { write.integer(1).text("x"); }).sentence(),
            "a key of the state dict isn't a string");
  const std::string neither = "the state dict's value is neither a tensor nor bytes";
  for (const auto& [module, name] : std::vector<std::pair<std::string, std::string>>{
           {"my.metadata", "BytesStorageMetadata"}, {"torch", "MyBytesStorageMetadata"}}) {
    const Error error = described([&, &mine = module, &type = name](PickleWriter& write) {
      write.text("v").global(mine, type).op(Op::empty_tuple).op(Op::new_obj);
    });
    EXPECT_EQ(error.sentence(), neither);
    EXPECT_EQ(error.tensor(), "v");
  }
  EXPECT_EQ(described([](auto& write) { write_object(write, "w"); }).sentence(),
            "the state dict has the key twice");
  EXPECT_EQ(described([](auto& write) { write_object(write, "step"); }).sentence(),
            "the metadata don't say where the object is stored");
  const auto stored = [](const Write& place) {
    Parts parts;
    parts.more_stored = place;
    return refused(parts).sentence();
  };
  EXPECT_EQ(stored([](auto& write) { write.text("w").text("x"); }),
            "a key of the storage data isn't a MetadataIndex");
  EXPECT_EQ(stored([](auto& write) {
              write_place(
                  write, "v", [](auto&) {}, Parts().place);
            }),
            "the storage data have an entry that the state dict lacks");
  EXPECT_EQ(stored([](auto& write) {
              open_object(write, "MetadataIndex");
              write.text("fqn").text("w");
              close_object(write);
              write.text("x");
            }),
            "a place that isn't a _StorageInfo");
  EXPECT_EQ(catch_error([] { read_metadata("\x80\x02N.", "memory"); }).sentence(),
            "the pickle isn't a Metadata of torch.distributed.checkpoint");
}

}  // namespace
}  // namespace hfshard::format::dcp
