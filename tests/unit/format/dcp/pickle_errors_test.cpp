// A pickle that can't be read says why, and where in its file.

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "format/dcp/tensor_pickle_write.h"
#include "format/pickle.h"
#include "format/tensor_pickle.h"
#include "support/catch_error.h"

#include "hfshard/error.h"

namespace hfshard::format::dcp {
namespace {

using std::string_literals::operator""s;

Pickle read_stream(const std::string& stream) { return {stream, "memory", Persistent::allowed}; }

TEST(PickleErrors, AStreamThatIsCutOffSaysWhatIsMissing) {
  const auto said = [](const std::string& stream) {
    return catch_error([&] { read_stream(stream); }).sentence();
  };
  EXPECT_EQ(said(""), "the pickle is cut off: 1 more bytes are wanted, 0 are there");
  EXPECT_EQ(said("N"), "the pickle is cut off: 1 more bytes are wanted, 0 are there");
  EXPECT_EQ(said("X\xff\xff\xff\xffshort."),
            "the pickle is cut off: 4294967295 more bytes are wanted, 6 are there");
  EXPECT_EQ(said("\x8a\x09"
                 "123."),
            "the pickle is cut off: 9 more bytes are wanted, 4 are there");
  EXPECT_EQ(said("\x8d\xff\xff\xff\xff\xff\xff\xff\xff."),
            "a text of 18446744073709551615 bytes, in a pickle of 10");
  EXPECT_EQ(said("cos\nsystem"), "the pickle is cut off within a name");
  EXPECT_EQ(said("\x95\2\0\0\0\0\0\0\0."s), "the pickle is cut off: a frame passes its end");
  EXPECT_EQ(said("N("), "the pickle is cut off: 1 more bytes are wanted, 0 are there");
  for (const char* open : {".", "(N.", "N(."})
    EXPECT_EQ(said(open), "the pickle ends with open values") << open;
}

TEST(PickleErrors, AnOpcodeSaysWhatItLacks) {
  const std::string takes = "the pickle takes a value from an empty stack";
  const std::string uses = "the pickle uses a value of an empty stack";
  const std::string mark = "the pickle has no mark where one is needed";
  const std::string container = "the pickle fills a value that is no container";
  for (const auto& [stream, sentence] : std::vector<std::pair<std::string, std::string>>{
           {"0.", takes},
           {"N\x86.", takes},
           {"(N\x86.", takes},
           {"N(R.", takes},
           {"NNR\x93.", takes},
           {"Na.", uses},
           {"]Ns.", uses},
           {"2.", uses},
           {"q\0."s, "the memo has no place 0"},
           {"1.", mark},
           {"t.", mark},
           {"e.", mark},
           {"NNa.", container},
           {"}Na.", container},
           {"]NNs.", container},
           {"\x8fNNs.", container},
           {"}(Nu.", "the pickle has a key without a value"},
           {"NNb.", "the pickle gives a state to a value that can't have one"},
           {"NN\x93.", "the pickle names a global by something that is no text"},
           {"X\1\0\0\0aN\x93."s, "the pickle names a global by something that is no text"},
           {"NX\1\0\0\0a\x93."s, "the pickle names a global by something that is no text"},
           {"h\0."s, "the memo holds nothing at 0"},
           {"Nq\1h\0."s, "the memo has no place 1"},
           {"NNq\1h\0."s, "the memo holds nothing at 0"},
           {"Nr\xff\xff\xff\xff.", "the memo has no place 4294967295"},
           {"\x80\x06N.", "a pickle of protocol 6; known are those up to 5"}}) {
    EXPECT_EQ(catch_error([&, &bytes = stream] { read_stream(bytes); }).sentence(), sentence)
        << ::testing::PrintToString(stream);
  }
  EXPECT_EQ(
      catch_error([] { read_stream(std::string((std::size_t{1} << 20) + 1, '(')); }).sentence(),
      "values nested deeper than 1048576");
  EXPECT_EQ(
      catch_error([] { read_stream("N" + std::string(std::size_t{1} << 24, '2')); }).sentence(),
      "more than 16777216 open values");
}

// The values below a mark belong to what was begun before it.
TEST(PickleErrors, AnOpcodeTakesNoValueFromBelowAMark) {
  const std::string takes = "the pickle takes a value from an empty stack";
  const std::string uses = "the pickle uses a value of an empty stack";
  for (const auto& [stream, sentence] :
       std::vector<std::pair<std::string, std::string>>{{"NN(R.", takes},
                                                        {"NN(Rt.", takes},
                                                        {"NN(NR.", takes},
                                                        {"NNN(\x92.", takes},
                                                        {"cm\nC\n)(\x81.", takes},
                                                        {"cm\nC\n)\x81N(b.", takes},
                                                        {"X\1\0\0\0aX\1\0\0\0b(\x93."s, takes},
                                                        {"N(Q.", takes},
                                                        {"NN(N\x86.", takes},
                                                        {"NNN(NN\x87.", takes},
                                                        {"]N(a.", takes},
                                                        {"}N(Ns.", takes},
                                                        {"](Na.", uses},
                                                        {"}(NNs.", uses},
                                                        {"cm\nC\n)\x81(Nb.", uses},
                                                        {"N(2.", uses},
                                                        {"N(q\0."s, uses},
                                                        {"N(\x94.", uses}}) {
    const Error error = catch_error([&, &bytes = stream] { read_stream(bytes); });
    EXPECT_EQ(error.code(), ErrorCode::corrupt) << ::testing::PrintToString(stream);
    EXPECT_EQ(error.sentence(), sentence) << ::testing::PrintToString(stream);
  }
  const Pickle pickle = read_stream("K\1(0K\2\x86.");  // POP removes only the mark
  const std::span<const Pickle::Id> pair = pickle.tuple(pickle.root());
  ASSERT_EQ(pair.size(), 2U);
  EXPECT_EQ(pickle.integer(pair[0]), 1);
  EXPECT_EQ(pickle.integer(pair[1]), 2);
}

// A stream can be within its file.
TEST(PickleErrors, PlacesAreThoseInTheFile) {
  const Error error =
      catch_error([] { const Pickle pickle("\x80\x02NI.", "f", Persistent::allowed, 100, 500); });
  EXPECT_EQ(error.code(), ErrorCode::unsupported);
  EXPECT_EQ(error.sentence(),
            "the pickle has the opcode 0x49 at byte 103, which no checkpoint needs");
  EXPECT_EQ(error.file(), "f");
  EXPECT_EQ(error.range(), (ByteRange{103, 104}));
  EXPECT_EQ(error.total_bytes(), 500U);
  const Error alone = catch_error([] { read_stream("\x80\x02NI."); });
  EXPECT_EQ(alone.range(), (ByteRange{3, 4}));
  EXPECT_EQ(alone.total_bytes(), 5U);
}

TEST(PickleValues, NumbersAndTextsOfEachLengthAreRead) {
  const auto integer = [](const std::string& stream) {
    const Pickle pickle = read_stream(stream);
    EXPECT_EQ(pickle.kind(pickle.root()), Pickle::Kind::integer);
    return pickle.integer(pickle.root());
  };
  EXPECT_EQ(integer("K\xff."), 255);
  EXPECT_EQ(integer("M\x34\x92."), 0x9234);
  EXPECT_EQ(integer("J\xff\xff\xff\xff."), -1);
  EXPECT_EQ(integer("\x8a\0."s), 0);
  EXPECT_EQ(integer("\x8a\1\xfe."), -2);
  EXPECT_EQ(integer("\x8a\2\xff\0."s), 255);
  EXPECT_EQ(integer("\x8b\2\0\0\0\xff\x7f."s), 32767);
  const auto text = [](const std::string& stream, Pickle::Kind kind) {
    const Pickle pickle = read_stream(stream);
    EXPECT_EQ(pickle.kind(pickle.root()), kind);
    return std::string(pickle.text(pickle.root()));
  };
  EXPECT_EQ(text("X\2\0\0\0ab."s, Pickle::Kind::text), "ab");
  EXPECT_EQ(text("\x8c\2ab.", Pickle::Kind::text), "ab");
  EXPECT_EQ(text("U\2ab.", Pickle::Kind::text), "ab");
  EXPECT_EQ(text("\x8d\2\0\0\0\0\0\0\0ab."s, Pickle::Kind::text), "ab");
  EXPECT_EQ(text("C\2ab.", Pickle::Kind::bytes), "ab");
  EXPECT_EQ(text("B\2\0\0\0ab."s, Pickle::Kind::bytes), "ab");
  EXPECT_EQ(text("\x8e\2\0\0\0\0\0\0\0ab."s, Pickle::Kind::bytes), "ab");
  const auto kind = [](const std::string& stream) {
    const Pickle pickle = read_stream(stream);
    return pickle.kind(pickle.root());
  };
  EXPECT_EQ(kind("G12345678."), Pickle::Kind::real);
  EXPECT_EQ(kind("\x8a\x09"
                 "123456789."),
            Pickle::Kind::other);
  EXPECT_EQ(kind("\x8f(NN\x90."), Pickle::Kind::set);
  EXPECT_EQ(kind("(NN\x91."), Pickle::Kind::tuple);
  EXPECT_EQ(kind("cm\nC\n)}\x92."), Pickle::Kind::call);
}

TEST(PickleValues, AContainerHasAtMostSoManyElements) {
  const Pickle list = read_stream("](NNeNa.");
  EXPECT_TRUE(list.has_at_most(list.root(), 3));
  EXPECT_FALSE(list.has_at_most(list.root(), 2));
  const Pickle dict = read_stream("}K\1Ns.");
  EXPECT_TRUE(dict.has_at_most(dict.root(), 2));
  EXPECT_FALSE(dict.has_at_most(dict.root(), 1));
}

TEST(PickleValues, ValuesThatFillAnObjectAreNotRead) {
  const std::string made = "cm\nC\nK\5\x85\x81";
  for (const std::string fill : {"K\1a", "(K\1K\2e", "K\1K\2s", "(K\1K\2u", "(K\1\x90"}) {
    const Pickle pickle = read_stream(made + fill + ".");
    ASSERT_EQ(pickle.kind(pickle.root()), Pickle::Kind::call) << fill;
    EXPECT_EQ(pickle.integer(pickle.tuple(pickle.arguments(pickle.root()))[0]), 5) << fill;
    EXPECT_FALSE(pickle.state(pickle.root())) << fill;
  }
  EXPECT_EQ(catch_error([&] { read_stream(made + "(K\1u."); }).sentence(),
            "the pickle has a key without a value");
}

TEST(PickleValues, TheRootIsTheLastOpenValue) {
  const Pickle pickle = read_stream("K\1K\2K\3.K\4.");
  EXPECT_EQ(pickle.integer(pickle.root()), 3);
  EXPECT_EQ(pickle.end_bytes(), 7U) << "behind the first STOP";
}

TEST(PickleErrors, TooManyValuesAreALimit) {
  const Error marks =
      catch_error([] { read_stream(std::string((std::size_t{1} << 20) + 1, '(')); });
  EXPECT_EQ(marks.code(), ErrorCode::limit);
  EXPECT_EQ(marks.range(), (ByteRange{1 << 20, (1 << 20) + 1}));
  const Error values = catch_error([] { read_stream("N" + std::string(1 << 24, '2')); });
  EXPECT_EQ(values.code(), ErrorCode::limit);
  EXPECT_EQ(values.range(), (ByteRange{1 << 24, (1 << 24) + 1}));
}

TEST(PickleValues, TheStateOfAnObjectIsTheLastThatItGets) {
  const auto state = [](const std::string& stream) {
    const Pickle pickle = read_stream(stream);
    const auto found = pickle.state(pickle.root());
    return found ? std::optional(pickle.integer(*found)) : std::nullopt;
  };
  EXPECT_EQ(state("cm\nC\n)\x81."), std::nullopt);
  EXPECT_EQ(state("cm\nC\n)\x81K\7b."), 7);
  EXPECT_EQ(state("cm\nC\n)\x81K\7bK\10b."), 8);
}

TEST(TensorPickleErrors, AnItemThatIsNoPlainTensorSaysWhatItIs) {
  const std::string good = tensor_pickle(DType::bf16, {2, 3});
  const auto said = [&](const std::string& from, const std::string& to) {
    std::string bad = good;
    EXPECT_NE(bad.find(from), std::string::npos) << from;
    bad.replace(bad.find(from), from.size(), to);
    return catch_error([&] { read_tensor_pickle(read_stream(bad)); }).sentence();
  };
  EXPECT_EQ(said("_rebuild_tensor_v2", "_rebuild_qtensor"),
            "a tensor that \"torch._utils._rebuild_qtensor\" makes, which hfshard can't read");
  EXPECT_EQ(said("torch._utils", "my.utils"),
            "a tensor that \"my.utils._rebuild_tensor_v2\" makes, which hfshard can't read");
  EXPECT_EQ(said("BFloat16Storage", "QInt8Storage"),
            "a storage of \"torch.QInt8Storage\", which hfshard can't read");
  EXPECT_EQ(said("torch\nBFloat16Storage", "xorch\nBFloat16Storage"),
            "a storage of \"xorch.BFloat16Storage\", which hfshard can't read");
  EXPECT_EQ(said("storage", "st0rage"), "a tensor's storage isn't a storage");
  EXPECT_EQ(said("K\x02K\x03\x86", "]"), "a shape that is no tuple");
  EXPECT_EQ(said(")Rt", ")R}X\4\0\0\0conj\x88st"s),
            "a tensor that is a conjugate or negative view");
  EXPECT_EQ(catch_error([] { read_tensor_pickle(read_stream("N.")); }).sentence(),
            "the item is no tensor");
  EXPECT_EQ(catch_error([] { read_tensor_pickle(read_stream("N)R.")); }).sentence(),
            "the item is no tensor")
      << "no function makes it";
  std::string other = tensor_pickle(DType::f8_e4m3, {4});
  other.replace(other.find("float8_e4m3fn"), 13, "float8_other9");
  EXPECT_EQ(catch_error([&] { read_tensor_pickle(read_stream(other)); }).sentence(),
            "a tensor of \"torch.float8_other9\", which hfshard can't read");
}

TEST(TensorPickleErrors, AStorageOrASizeOfAnotherFormIsRefused) {
  const std::string good = tensor_pickle(DType::f32, {2, 3});
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string out = good;
    EXPECT_NE(out.find(from), std::string::npos) << from;
    return out.replace(out.find(from), from.size(), to);
  };
  const auto said = [&](const std::string& from, const std::string& to) {
    return catch_error([&] { read_tensor_pickle(read_stream(changed(from, to))); }).sentence();
  };
  EXPECT_EQ(said("K\x02K\x03\x86", "K\x02N\x86"), "a size that isn't a size");
  const std::string place = "X\3\0\0\0cpu"s;
  EXPECT_EQ(said(place + "K\6", place), "a tensor's storage isn't a storage") << "four parts";
  EXPECT_EQ(said("X\1\0\0\0"
                 "0"s,
                 "K\0"s),
            "a tensor's storage isn't a storage")
      << "its key is a number";
  EXPECT_EQ(said("K\x02K\x03\x86", "cmy\nSize\nK\x02K\x03\x86\x85R"), "a shape that is no tuple");
  // Flags are a dict. Other values don't count.
  EXPECT_EQ(read_tensor_pickle(read_stream(changed(")Rt", ")R]K\1at"))).shape, (Shape{2, 3}));
}

TEST(PickleValues, AnObjectKeepsItsArgumentsAndADictIgnoresItsState) {
  const Pickle object = read_stream("cm\nC\nK\5\x85\x81K\7b.");
  const Pickle::Id arguments = object.arguments(object.root());
  EXPECT_EQ(object.integer(object.tuple(arguments)[0]), 5);
  EXPECT_EQ(object.integer(object.state(object.root()).value()), 7);
  const Pickle dict = read_stream("}K\1Ns}b.");
  EXPECT_EQ(dict.kind(dict.root()), Pickle::Kind::dict);
  EXPECT_TRUE(dict.has_at_most(dict.root(), 2));
  const Pickle truth = read_stream("\x88\x89\x86.");
  EXPECT_TRUE(truth.boolean(truth.tuple(truth.root())[0]));
  EXPECT_FALSE(truth.boolean(truth.tuple(truth.root())[1]));
}

}  // namespace
}  // namespace hfshard::format::dcp
