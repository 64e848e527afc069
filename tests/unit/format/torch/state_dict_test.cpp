#include "format/torch/state_dict.h"

#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "format/dcp/pickle_writer.h"
#include "support/catch_error.h"

#include "hfshard/error.h"

namespace hfshard::format::torch {
namespace {

using Keys = std::vector<std::string>;
using DictWriter = dcp::PickleWriter;
using Fill = std::function<void(DictWriter&)>;

void dict(DictWriter& write, const Fill& items) {
  write.op(Op::empty_dict).op(Op::mark);
  items(write);
  write.op(Op::set_items);
}

void put_tensor(DictWriter& write, const std::string& name) {
  write.text(name).global("torch._utils", "_rebuild_tensor_v2").op(Op::empty_tuple).op(Op::reduce);
}

// A tensor below these keys. Each has a dict, and the first is the outermost.
void nested(DictWriter& write, const Keys& keys, std::size_t at = 0) {
  if (at == keys.size()) return put_tensor(write, "w");
  write.text(keys[at]);
  dict(write, [&](DictWriter& inner) { nested(inner, keys, at + 1); });
}

Pickle pickle_of(const Fill& value) {
  std::string stream;
  DictWriter write(stream);
  write.begin();
  value(write);
  write.op(Op::stop);
  return {stream, "memory", Persistent::allowed};
}

StateDict find(const Fill& items, const std::string& root = {}) {
  return find_state_dict(pickle_of([&](DictWriter& write) { dict(write, items); }), root);
}

Error refused_state(const Fill& items, const std::string& root = {}) {
  return catch_error([&] { (void)find(items, root); });
}

Keys names_of_tensors(const StateDict& found) {
  Keys out;
  for (const StateDict::Entry& entry : found.tensors) out.push_back(entry.name);
  return out;
}

Fill below(const Keys& keys) {
  return [=](DictWriter& write) { nested(write, keys); };
}

TEST(StateDict, DictsMakeDottedNamesUpToFourKeysDeep) {
  const auto beside = [](const Keys& keys) {
    return find([&](DictWriter& write) {
      put_tensor(write, "z");
      nested(write, keys);
    });
  };
  const StateDict four = beside({"a", "b", "c", "d"});
  EXPECT_EQ(names_of_tensors(four), (Keys{"a.b.c.d.w", "z"}));
  EXPECT_EQ(four.others, Keys());
  EXPECT_EQ(four.below, "");
  const StateDict five = beside({"a", "b", "c", "d", "e"});
  EXPECT_EQ(names_of_tensors(five), Keys{"z"});
  EXPECT_EQ(five.others, Keys{"a.b.c.d.e"});
}

TEST(StateDict, TheModelIsBelowTheKeysOfTrainers) {
  const StateDict found = find([](DictWriter& write) {
    write.text("epoch").integer(3);
    nested(write, {"model"});
    nested(write, {"optimizer"});
  });
  EXPECT_EQ(found.below, "model");
  EXPECT_EQ(names_of_tensors(found), Keys{"w"});
  EXPECT_EQ(found.others, (Keys{"epoch", "optimizer"}));
  const StateDict four = find(below({"module", "model", "state_dict", "model_state"}));
  EXPECT_EQ(four.below, "module.model.state_dict.model_state");
  EXPECT_EQ(names_of_tensors(four), Keys{"w"});
  const StateDict five = find(below({"model", "model", "model", "model", "model"}));
  EXPECT_EQ(five.below, "model.model.model.model");
  EXPECT_EQ(names_of_tensors(five), Keys{"model.w"});
}

TEST(StateDict, AModelsTensorsCanBeFourKeysDeeper) {
  const StateDict found = find(below({"model", "a", "b", "c", "d"}));
  EXPECT_EQ(found.below, "model");
  EXPECT_EQ(names_of_tensors(found), Keys{"a.b.c.d.w"});
  const Error error = refused_state(below({"model", "a", "b", "c", "d", "e"}));
  EXPECT_EQ(error.code(), ErrorCode::unsupported);
  EXPECT_NE(error.sentence().find("it has \"model\""), std::string::npos) << error.sentence();
}

TEST(StateDict, KeysThatAreNoTextAreLeftOut) {
  const StateDict found = find([](DictWriter& write) {
    put_tensor(write, "w");
    write.integer(5).op(Op::empty_dict).op(Op::none).op(Op::empty_dict);
    write.integer(6).global("torch._utils", "_rebuild_tensor_v2").op(Op::empty_tuple);
    write.op(Op::reduce);
  });
  EXPECT_EQ(names_of_tensors(found), Keys{"w"});
  EXPECT_EQ(found.others, (Keys{"5 (a number)", "(a key that isn't a string)", "6 (a number)"}));
  const StateDict numbered = find([](DictWriter& write) {
    put_tensor(write, "w");
    write.text("model");
    dict(write, [](DictWriter& model) {
      model.integer(5).global("torch._utils", "_rebuild_tensor_v2").op(Op::empty_tuple);
      model.op(Op::reduce);
    });
  });
  EXPECT_EQ(numbered.below, "") << "no model is below the key";
  EXPECT_EQ(names_of_tensors(numbered), Keys{"w"});
  EXPECT_EQ(numbered.others, Keys{"model.5 (a number)"});
}

TEST(StateDict, ARootIsTakenAsItIs) {
  const Fill items = [](DictWriter& write) {
    nested(write, {"model"});
    write.text("ema");
    dict(write, [](DictWriter& ema) {
      ema.text("step").integer(3);
      nested(ema, {"net"});
      put_tensor(ema, "t");
    });
    put_tensor(write, "top");
  };
  const StateDict found = find(items, "ema.net");
  EXPECT_EQ(found.below, "ema.net");
  EXPECT_EQ(names_of_tensors(found), Keys{"w"});
  EXPECT_EQ(found.others, (Keys{"model", "top", "ema.step", "ema.t"}));
  for (const char* root : {"emma", "top", "ema.net.w", "ema."}) {
    const Error error = refused_state(items, root);
    EXPECT_EQ(error.code(), ErrorCode::not_found) << root;
    EXPECT_NE(error.sentence().find(root), std::string::npos) << error.sentence();
  }
  EXPECT_EQ(refused_state(items, "emma").hint_text(), "the dicts there are \"model\", \"ema\"");
  EXPECT_EQ(refused_state(items, "ema.x").hint_text(), "the dicts there are \"net\"");
  EXPECT_EQ(refused_state(items, "model.x").hint_text(), "leave out --root");
  const Pickle number = pickle_of([](DictWriter& write) { write.integer(3); });
  EXPECT_EQ(catch_error([&] { find_state_dict(number, "x"); }).code(), ErrorCode::not_found);
}

TEST(StateDict, ANameTwiceOrInBadUnicodeIsRefused) {
  const Error twice = refused_state([](DictWriter& write) {
    nested(write, {"a"});
    put_tensor(write, "a.w");
  });
  EXPECT_EQ(twice.code(), ErrorCode::corrupt);
  EXPECT_EQ(twice.tensor(), "a.w");
  const Error bad = refused_state([](DictWriter& write) { put_tensor(write, "a\xff"); });
  EXPECT_EQ(bad.code(), ErrorCode::unsupported);
  EXPECT_FALSE(bad.tensor().empty());
}

TEST(StateDict, WhatTheFileHasInsteadIsSaid) {
  const Pickle made = pickle_of(
      [](DictWriter& write) { write.global("my", "Net").op(Op::empty_tuple).op(Op::reduce); });
  EXPECT_EQ(catch_error([&] { find_state_dict(made); }).sentence(),
            "the file holds an object that \"my.Net\" makes, not a dict of tensors");
  const Pickle number = pickle_of([](DictWriter& write) { write.integer(3); });
  EXPECT_EQ(catch_error([&] { find_state_dict(number); }).sentence(),
            "the file doesn't hold a dict of tensors");
  EXPECT_EQ(refused_state([](DictWriter&) {}).sentence(), "the file holds an empty dict");
}

// Each dict has the next one under many keys, so a few hundred bytes are millions of tensors.
TEST(StateDict, TheSameDictsInTooManyPlacesAreRefused) {
  const auto tree = [](std::uint32_t keys) {
    return [=](DictWriter& write) {
      for (std::uint32_t level = 0; level < 4; ++level) {
        write.op(Op::empty_dict).op(Op::mark);
        for (std::uint32_t key = 0; key < keys; ++key) {
          if (level == 0) put_tensor(write, std::to_string(key));
          if (level > 0) write.text(std::to_string(key)).get(level - 1);
        }
        write.op(Op::set_items).put(level);
      }
    };
  };
  EXPECT_EQ(find_state_dict(pickle_of(tree(4))).tensors.size(), 256U);
  const Error error = catch_error([&] { find_state_dict(pickle_of(tree(24))); });
  EXPECT_EQ(error.code(), ErrorCode::limit);
}

TEST(StateDict, ARefusalSaysWhatTheFileHasAndHowToSaveIt) {
  const std::string hint = "save model.state_dict() with torch.save";
  const Error none = refused_state([](DictWriter& write) { write.text("a").integer(3); });
  EXPECT_EQ(none.sentence(),
            "the file's dict has no tensors with text as keys, not even below the keys where "
            "trainers keep a model; it has \"a\"");
  EXPECT_EQ(none.hint_text(), hint);
  EXPECT_EQ(refused_state([](DictWriter&) {}).hint_text(), hint);
  const Pickle number = pickle_of([](DictWriter& write) { write.integer(3); });
  EXPECT_EQ(catch_error([&] { find_state_dict(number); }).hint_text(), hint);
  const Error many = refused_state([](DictWriter& write) {
    for (const char* key : {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"})
      write.text(key).integer(3);
  });
  EXPECT_TRUE(many.sentence().ends_with("\"g\", \"h\" and 2 more")) << many.sentence();
  EXPECT_EQ(refused_state(below({"ema"}), "emma").sentence(), "the file has no dict at \"emma\"");
  const Error twice = refused_state([](DictWriter& write) {
    put_tensor(write, "w");
    put_tensor(write, "w");
  });
  EXPECT_EQ(twice.sentence(), "the file has the tensor twice");
  const Error bad = refused_state([](DictWriter& write) { put_tensor(write, "a\xff"); });
  EXPECT_EQ(bad.sentence(), "the name isn't valid Unicode");
  EXPECT_EQ(bad.hint_text(), "save the state dict with other names");
}

// Trainers keep several models, of which the first known key counts.
TEST(StateDict, TheFirstOfTheTrainersKeysWithTensorsCounts) {
  const StateDict found = find([](DictWriter& write) {
    nested(write, {"model_state"});
    nested(write, {"state_dict"});
    write.text("model");
    dict(write, [](DictWriter& model) { model.text("name").integer(3); });
  });
  EXPECT_EQ(found.below, "state_dict");
  EXPECT_EQ(found.others, (Keys{"model_state", "model"}));
}

TEST(StateDict, EachKeyOfATrainerLeadsToTheModel) {
  for (const char* key : {"model", "state_dict", "module", "model_state_dict", "model_state"}) {
    const StateDict found = find(below({key}));
    EXPECT_EQ(found.below, key);
    EXPECT_EQ(names_of_tensors(found), Keys{"w"}) << key;
  }
  EXPECT_EQ(names_of_tensors(find(below({"models"}))), Keys{"models.w"});
}

}  // namespace
}  // namespace hfshard::format::torch
