#include "format/torch/old_file.h"

#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/coding.h"
#include "format/dcp/pickle_writer.h"
#include "support/catch_error.h"
#include "support/temp_dir.h"

#include "hfshard/hfshard.h"

namespace hfshard::format::torch {
namespace {

using dcp::PickleWriter;
using std::string_literals::operator""s;

const std::string kProtocol2 = "\x80\x02";

// Returns a file with one tensor of six bytes, whose storage states `elements` elements. `head`:
// the pickle opcodes before the magic number. `note`: a text before the tensor.
std::string old_file(std::uint64_t protocol, bool little, std::uint64_t elements,
                     const std::string& head = kProtocol2, const std::string& note = {}) {
  std::string out = head + std::string(kOldMagic);
  PickleWriter write(out);
  write.begin().integer(protocol).op(Op::stop);
  write.begin().op(Op::empty_dict).text("little_endian");
  write.op(little ? Op::new_true : Op::new_false).op(Op::set_item);
  if (!note.empty()) write.text("note").text(note).op(Op::set_item);
  write.op(Op::stop);
  write.begin().op(Op::empty_dict).text("a").global("torch._utils", "_rebuild_tensor_v2");
  write.op(Op::mark).op(Op::mark).text("storage").global("torch", "ByteStorage").text("77");
  write.text("cpu").integer(6).op(Op::none).op(Op::tuple).op(Op::bin_pers_id).integer(0);
  write.integers({2, 3}).integers({3, 1}).op(Op::new_false).op(Op::none);
  write.op(Op::tuple).op(Op::reduce).op(Op::set_item).op(Op::stop);
  write.begin().op(Op::empty_list).text("77").op(Op::append).op(Op::stop);
  std::string count(8, '\0');
  store_le(std::as_writable_bytes(std::span(count)).data(), elements);
  return out + count + "abcdef";
}

TEST(OldTorchFile, StoragesFollowThePickles) {
  const TempDir dir;
  const std::string frame("\x80\x04\x95\x0d\0\0\0\0\0\0\0", 11);
  for (const std::string& head : {kProtocol2, std::string("\x80\x03"), frame}) {
    const std::string bytes = old_file(1001, true, 6, head);
    write_text(dir / "x.bin", bytes);
    const TorchFile file = read_torch_file(dir / "x.bin");
    ASSERT_EQ(file.tensors.size(), 1U);
    EXPECT_EQ(bytes.substr(file.tensors[0].begin_bytes), "abcdef");
    EXPECT_FALSE(file.tensors[0].crc.has_value());
  }
  write_text(dir / "pytorch_model.bin", old_file(1001, true, 6));
  std::string whole(6, '?');
  open(dir.path()).read_rows(0, 0, std::as_writable_bytes(std::span(whole)));
  EXPECT_EQ(whole, "abcdef") << "it has no checksum";
  write_text(dir / "x.bin", old_file(1001, true, 6, frame + frame));
  EXPECT_FALSE(begins_as_torch_file(dir / "x.bin"));
  write_text(dir / "x.bin", "x" + old_file(1001, true, 6, "").substr(0, kOldMagic.size()));
  EXPECT_FALSE(begins_as_torch_file(dir / "x.bin")) << "not a pickle";
}

TEST(OldTorchFile, ThePicklesCanBeLong) {
  const TempDir dir;
  const std::string bytes =
      old_file(1001, true, 6, kProtocol2, std::string(std::size_t{2} << 20, 'x'));
  write_text(dir / "x.bin", bytes);
  const TorchFile file = read_torch_file(dir / "x.bin");
  ASSERT_EQ(file.tensors.size(), 1U);
  EXPECT_EQ(bytes.substr(file.tensors[0].begin_bytes), "abcdef");
}

TEST(OldTorchFile, ItIsKnownByItsMagicNumberUnderAnyName) {
  const TempDir dir;
  write_text(dir / "x", old_file(1001, true, 6));
  EXPECT_TRUE(begins_as_torch_file(dir / "x", true));
  EXPECT_TRUE(begins_as_torch_file(dir / "x", false));
}

TEST(OldTorchFile, ATensorThatNeedsMoreThanItsStorageHasIsRefused) {
  const TempDir dir;
  std::string bytes = old_file(1001, true, 6);
  const std::size_t begin = bytes.find("X\1\0\0\0actorch"s);
  const std::size_t end = bytes.find("tRs.", begin) + 3;
  ASSERT_NE(begin, std::string::npos);
  std::string other = bytes.substr(begin, end - begin);
  other[5] = 'b';
  other.replace(other.find("K\6N"), 2, "K\7");
  write_text(dir / "x.bin", bytes.insert(end, other));
  const Error error = catch_error([&] { read_torch_file(dir / "x.bin"); });
  EXPECT_EQ(error.code(), ErrorCode::corrupt);
  EXPECT_EQ(error.sentence(), "the file has no such storage");
  EXPECT_EQ(error.tensor(), "b");
}

TEST(OldTorchFile, WhatIsCutOffOrContradictsItselfIsRefused) {
  const TempDir dir;
  const auto code_of = [&](const std::string& bytes) {
    write_text(dir / "x.bin", bytes);
    const Error error = catch_error([&] { read_torch_file(dir / "x.bin"); });
    EXPECT_EQ(error.file(), dir / "x.bin");
    return error.code();
  };
  const std::string good = old_file(1001, true, 6);
  for (std::size_t size = kOldMagic.size() + 2; size < good.size(); ++size)
    EXPECT_EQ(code_of(good.substr(0, size)), ErrorCode::corrupt) << size;
  EXPECT_EQ(code_of(old_file(1002, true, 6)), ErrorCode::unsupported);
  EXPECT_EQ(code_of(old_file(1001, false, 6)), ErrorCode::unsupported);
  EXPECT_EQ(code_of(old_file(1001, true, 7)), ErrorCode::corrupt);
  EXPECT_EQ(code_of(old_file(1001, true, UINT64_MAX)), ErrorCode::corrupt);
  const auto replaced = [&](const std::string& from, const std::string& to) {
    std::string out = good;
    return out.replace(out.find(from), from.size(), to);
  };
  const std::string key("X\2\0\0\00077", 7);
  const std::string list = "]" + key + "a.";
  const std::string twice = replaced(list, "]" + key + "a" + key + "a.");
  EXPECT_EQ(code_of(twice + good.substr(good.size() - 14)), ErrorCode::corrupt)
      << "a storage twice";
  EXPECT_EQ(code_of(replaced(list, "].")), ErrorCode::corrupt) << "no storage";
  EXPECT_EQ(code_of(replaced(list, key + ".")), ErrorCode::corrupt) << "no list";
  EXPECT_EQ(code_of(replaced(list, "]K\7a.")), ErrorCode::corrupt) << "a number as a key";
  EXPECT_EQ(code_of(replaced(key + "a", std::string("X\2\0\0\00078a", 8))), ErrorCode::corrupt);
  EXPECT_EQ(code_of(replaced("K\6N", "K\6)")), ErrorCode::unsupported) << "a view of a storage";
}

TEST(OldTorchFile, ARefusalSaysWhatIsWrongWithTheFile) {
  const TempDir dir;
  const auto refused = [&](const std::string& bytes) {
    write_text(dir / "x.bin", bytes);
    return catch_error([&] { read_torch_file(dir / "x.bin"); });
  };
  const auto said = [&](const std::string& bytes) { return refused(bytes).sentence(); };
  const std::string good = old_file(1001, true, 6);
  EXPECT_EQ(said(old_file(1002, true, 6)), "a PyTorch file with an unknown protocol");
  EXPECT_EQ(said(old_file(1001, false, 6)), "elements that aren't little-endian");
  const Error count = refused(old_file(1001, true, 7));
  EXPECT_EQ(count.sentence(), "a storage of 7 elements, where its tensors say 6");
  EXPECT_EQ(count.range(), (ByteRange{good.size() - 14, good.size() - 6}));
  EXPECT_EQ(count.total_bytes(), good.size());
  const Error cut = refused(good.substr(0, good.size() - 1));
  EXPECT_EQ(cut.sentence(), "the file ends before its last storage does");
  EXPECT_EQ(cut.range(), (ByteRange{good.size() - 6, good.size()}));
  EXPECT_EQ(cut.hint_text(),
            "compare the file's size with the one on the Hub; the download may be partial");
  const Error no_count = refused(good.substr(0, good.size() - 7));
  EXPECT_EQ(no_count.sentence(), "the file ends before its last storage does");
  EXPECT_EQ(no_count.range(), (ByteRange{good.size() - 14, good.size() - 6}));
  const auto replaced = [&](const std::string& from, const std::string& to) {
    std::string out = good;
    return out.replace(out.find(from), from.size(), to);
  };
  const std::string key("X\2\0\0\00077", 7);
  const std::string list = "]" + key + "a.";
  EXPECT_EQ(said(replaced(list, "]" + key + "a" + key + "a.") + good.substr(good.size() - 14)),
            "the file lists a storage twice");
  EXPECT_EQ(said(replaced(list, key + ".")), "the file lacks the list of its storages");
  EXPECT_EQ(said(replaced(list, "]K\7a.")), "the file lists a storage without a tensor");
  EXPECT_EQ(said(replaced(list, "].")), "the file has no such storage");
  EXPECT_EQ(refused(replaced(list, "].")).tensor(), "a");
  EXPECT_EQ(said(replaced("K\6N", "K\6)")),
            "a PyTorch file from before 0.4, with views of storages");
}

TEST(OldTorchFile, AStorageMayHaveFivePartsAndTheHashIsThatOfThePickles) {
  const TempDir dir;
  std::string five = old_file(1001, true, 6);
  five.replace(five.find("K\6Nt"), 4, "K\6t");
  write_text(dir / "x.bin", five);
  const TorchFile file = read_torch_file(dir / "x.bin");
  ASSERT_EQ(file.tensors.size(), 1U);
  EXPECT_EQ(five.substr(file.tensors[0].begin_bytes), "abcdef");
  const auto hash = [&](const std::string& note, char last) {
    std::string bytes = old_file(1001, true, 6, kProtocol2, note);
    bytes.back() = last;
    write_text(dir / "x.bin", bytes);
    return read_torch_file(dir / "x.bin").sha256;
  };
  EXPECT_EQ(hash("one", 'f'), hash("one", 'g')) << "elements don't count";
  EXPECT_NE(hash("one", 'f'), hash("two", 'f'));
}

}  // namespace
}  // namespace hfshard::format::torch
