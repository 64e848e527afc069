#include "format/foreign.h"

#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "format/formats.h"
#include "support/catch_error.h"
#include "support/temp_dir.h"
#include <sys/stat.h>

namespace hfshard {
namespace {

TEST(ForeignCheckpoints, AreCalledWhatTheyAre) {
  const TempDir dir;
  struct Case {
    std::string name;
    std::string bytes;
    std::string said;
  };
  const std::string zip = "PK\x03\x04............";
  for (const Case& each :
       {Case{"model-q4.gguf", "GGUF\x03", "GGUF"}, Case{"any.name", "GGUF", "GGUF"},
        Case{"model.of.somebody", zip, "PyTorch"}, Case{"__0_0.distcp", zip, "DCP"},
        Case{".metadata", "\x80\x02", "DCP"}, Case{"old.pt", "\x80\x02", "PyTorch"},
        Case{"arrays.npz", zip, "a NumPy archive"}, Case{"flax_model.msgpack", "\x83", "msgpack"},
        Case{"a.npy", "\x93NUMPY\x01", "a NumPy array"}, Case{"m.onnx", "\x08", "an ONNX model"},
        Case{"m.nemo", "./model", "a NeMo checkpoint"},
        Case{"m.parameters", "x", "an EasyDeL checkpoint"},
        Case{"model.h5", "\x89HDF\r\n\x1a\n", "HDF5"}}) {
    write_text(dir / each.name, each.bytes);
    for (const bool source : {true, false}) {
      const Error error = catch_error([&] {
        if (source) open_source(dir / each.name);
        if (!source) open_checkpoint(dir / each.name);
      });
      EXPECT_EQ(error.code(), ErrorCode::unsupported) << each.name;
      EXPECT_NE(error.sentence().find(each.said), std::string::npos) << error.sentence();
      EXPECT_EQ(error.file(), dir / each.name);
    }
  }
}

TEST(ForeignCheckpoints, AFlaxCheckpointIsOneWhereverItLies) {
  const TempDir dir;
  write_text(dir / "run/checkpoint_100", "\x81\xa6params");
  write_text(dir / "old/checkpoint", "\x8f\xa6params");
  for (const char* name : {"run", "run/checkpoint_100", "old"}) {
    for (const bool source : {true, false}) {
      const Error error = catch_error([&] {
        if (source) open_source(dir / name);
        if (!source) open_checkpoint(dir / name);
      });
      EXPECT_EQ(error.code(), ErrorCode::unsupported) << name;
      EXPECT_NE(error.sentence().find("Flax checkpoint"), std::string::npos) << error.sentence();
      EXPECT_NE(error.file().find("checkpoint"), std::string::npos) << error.file();
    }
  }
}

TEST(ForeignCheckpoints, OfWhatIsNotKnownNothingIsSaid) {
  const TempDir dir;
  write_text(dir / "short", "G");
  write_text(dir / "empty", "");
  write_text(dir / "text.pt", "a text");
  write_text(dir / "half/.metadata", "?");
  write_text(dir / "texts/checkpoint_100", "a text");
  write_text(dir / "texts/checkpoints", "\x81");
  write_text(dir / "texts/checkpoint_1/file", "\x81");
  write_text(dir / "steps/global_step1", "a file");
  write_text(dir / "steps/global_step2/notes.txt", "x");
  for (const char* name : {"short", "empty", "text.pt", "half", "texts", "steps", "nothing"})
    EXPECT_NO_THROW(refuse_foreign(dir / name)) << name;
  EXPECT_NO_THROW(refuse_foreign_ranks(dir / "short")) << "a file";
}

TEST(ForeignCheckpoints, AFileNamesTheWayToAModel) {
  const TempDir dir;
  const auto hint = [&](const std::string& name, const std::string& bytes) {
    write_text(dir / name, bytes);
    return catch_error([&] { refuse_foreign(dir / name); }).hint_text();
  };
  EXPECT_EQ(hint("__0_0.distcp", "x"), "pass the directory that it is in");
  EXPECT_EQ(hint("a.pt", "\x80"),
            "save the model as safetensors first, for example with "
            "save_pretrained(safe_serialization=True)");
  EXPECT_EQ(hint("m.nemo", "x"),
            "export it with NeMo first: nemo.collections.llm.export_ckpt(path, target=\"hf\")");
  EXPECT_EQ(hint("a.npy", "\x93NUMPY"), "");
}

// Opening a pipe would wait for its writer.
TEST(ForeignCheckpoints, OnlyFilesAndDirectoriesAreOpened) {
  const TempDir dir;
  const std::string pipe = dir / "checkpoint_1";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_NO_THROW(refuse_foreign(pipe));
  EXPECT_NO_THROW(refuse_foreign(dir.path()));
  std::filesystem::create_symlink("nowhere", dir / "checkpoint_2");
  EXPECT_NO_THROW(refuse_foreign(dir / "checkpoint_2"));
}

TEST(ForeignCheckpoints, ADirectoryIsKnownByItsFiles) {
  for (const auto& [name, what] : std::vector<std::pair<std::string, std::string>>{
           {"global_step1/zero_pp_rank_0_mp_rank_00_model_states.pt",
            "DeepSpeed checkpoint (ZeRO)"},
           {"easydel-model.parameters", "n EasyDeL checkpoint"},
           {"tensorstore_index.json", "n EasyDeL checkpoint"},
           {"saved_model.pb", "TensorFlow checkpoint"},
           {"model.ckpt-7.data-00000-of-00001", "TensorFlow checkpoint"}}) {
    const TempDir dir;
    write_text(dir / name, "x");
    const Error error = catch_error([&] { refuse_foreign(StorePath(dir.path())); });
    EXPECT_EQ(error.code(), ErrorCode::unsupported) << name;
    EXPECT_EQ(error.sentence(), "this is a" + std::string(what.starts_with("n ") ? "" : " ") +
                                    what + ", which hfshard can't read");
    EXPECT_EQ(error.file(), dir.path());
  }
}

// Returns the refusal of a directory with these files. Empty if it isn't refused.
std::string refusal_of(const std::vector<std::string>& names) {
  const TempDir dir;
  for (const std::string& name : names) write_text(dir / name, "x");
  try {
    refuse_foreign(StorePath(dir.path()));
    return {};
  } catch (const Error& error) {
    return error.sentence();
  }
}

TEST(ForeignCheckpoints, AMegatronRunHasATrackerAndAnIteration) {
  const std::string tracker = "latest_checkpointed_iteration.txt";
  const std::string refusal = "this is a Megatron-LM checkpoint, which hfshard can't read";
  EXPECT_EQ(refusal_of({tracker, "iter_0000100/notes.txt"}), refusal);
  EXPECT_EQ(refusal_of({tracker}), "");
  EXPECT_EQ(refusal_of({"iter_0000100/notes.txt"}), "");
  EXPECT_EQ(refusal_of({tracker, "iter_final/notes.txt"}), "");
}

TEST(ForeignCheckpoints, AnIterationOfMegatronHasFilesOfItsRanks) {
  const std::string refusal = "this is a Megatron-LM checkpoint, which hfshard can't read";
  EXPECT_EQ(refusal_of({"mp_rank_00/model_optim_rng.pt"}), refusal);
  EXPECT_EQ(refusal_of({"mp_rank_01_002/model_rng.pt"}), refusal);
  EXPECT_EQ(refusal_of({"mp_rank_00/model_states.pt"}), "");
  EXPECT_EQ(refusal_of({"rank_00/model_optim_rng.pt"}), "");
}

TEST(ForeignCheckpoints, OnlyAStepOfDeepSpeedIsLookedInto) {
  const std::string rank = "bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt";
  const std::string refusal = "this is a DeepSpeed checkpoint (ZeRO), which hfshard can't read";
  EXPECT_EQ(refusal_of({rank}), refusal);
  EXPECT_EQ(refusal_of({"global_step7/" + rank}), refusal);
  EXPECT_EQ(refusal_of({"step7/" + rank}), "");
  EXPECT_EQ(refusal_of({"global_step7/mp_rank_00_model_states.pt"}), "");
}

TEST(ForeignCheckpoints, ATreeOfMegatronHasBothOfItsFiles) {
  const TempDir dir;
  EXPECT_FALSE(is_megatron_tree(dir.path()));
  write_text(dir / "one/common.pt", "x");
  write_text(dir / "other/metadata.json", "{}");
  for (const char* name : {"one", "other", "one/common.pt"})
    EXPECT_FALSE(is_megatron_tree(dir / name)) << name;
  write_text(dir / "one/metadata.json", "{}");
  EXPECT_TRUE(is_megatron_tree(dir / "one"));
}

// Every kind, with its hint.
TEST(ForeignCheckpoints, EachKindHasItsWordsAndItsHint) {
  const TempDir dir;
  const std::string zip = "PK\x03\x04............";
  const std::string torch =
      "save the model as safetensors first, for example with "
      "save_pretrained(safe_serialization=True)";
  const std::string of_dcp = "pass the directory that it is in";
  struct Case {
    std::string name;
    std::string bytes;
    std::string kind;
    std::string hint;
  };
  for (const Case& each :
       {Case{"m.gguf", "GGUF\x03", "a GGUF file (llama.cpp)",
             "convert the model's own safetensors instead, since most GGUF files hold rounded "
             "values: hfshard convert ORG/NAME OUT"},
        Case{"m.h5", "\x89HDF\r\n\x1a\n", "an HDF5 file (Keras)", ""},
        Case{"m.npz", zip, "a NumPy archive", ""},
        Case{"a.distcp", zip, "one file of a PyTorch DCP checkpoint", of_dcp},
        Case{".metadata", "\x80", "the metadata of a PyTorch DCP checkpoint", of_dcp},
        Case{"m.any", zip, "a PyTorch file", torch},
        Case{"m.msgpack", "\x80", "a Flax msgpack file", ""},
        Case{"n.msgpack", "?", "a Flax msgpack file", ""},
        Case{"m.pth", "\x80", "a PyTorch file from before 1.6", torch},
        Case{"m.npy", "\x93NUMPY", "a NumPy array", ""},
        Case{"m.onnx", "?", "an ONNX model", "convert the model that was exported"},
        Case{"m.nemo", "?", "a NeMo checkpoint",
             "export it with NeMo first: nemo.collections.llm.export_ckpt(path, target=\"hf\")"},
        Case{"m.parameters", "?", "an EasyDeL checkpoint",
             "export it with EasyDeL first: model.to_torch().save_pretrained(DIR)"},
        Case{"checkpoint_7", "\x82", "a Flax checkpoint (msgpack)",
             "load it with flax.training.checkpoints.restore_checkpoint and save it with Orbax"}}) {
    write_text(dir / each.name, each.bytes);
    const Error error = catch_error([&] { refuse_foreign(dir / each.name); });
    EXPECT_EQ(error.sentence(), "this is " + each.kind + ", which hfshard can't read");
    EXPECT_EQ(error.hint_text(), each.hint) << each.name;
    EXPECT_EQ(error.file(), dir / each.name);
  }
}

// DeepSpeed puts its program next to the directories of steps.
TEST(ForeignCheckpoints, FilesOfDeepSpeedAreJoinedWithItsOwnProgram) {
  const TempDir dir;
  write_text(dir / "run/global_step7/zero_pp_rank_0_mp_rank_00_model_states.pt", "x");
  const std::string run = dir / "run";
  const std::string hint = "join its files first: python " + run + "/zero_to_fp32.py " + run +
                           " MODEL --safe_serialization";
  for (const std::string& place : {run, run + "/global_step7"}) {
    EXPECT_EQ(catch_error([&] { refuse_foreign(StorePath(place)); }).hint_text(), hint);
    EXPECT_EQ(catch_error([&] { refuse_foreign_ranks(StorePath(place)); }).file(), place);
  }
}

TEST(ForeignCheckpoints, DirectoriesOfTrainersHaveTheirHints) {
  const auto hint = [](const std::string& name) {
    const TempDir dir;
    write_text(dir / name, "x");
    return catch_error([&] { refuse_foreign(StorePath(dir.path())); }).hint_text();
  };
  const std::string megatron =
      "export it with Megatron Bridge first: "
      "AutoBridge.from_hf_pretrained(MODEL).export_ckpt(megatron_path, hf_path)";
  EXPECT_EQ(hint("mp_rank_00/model_optim_rng.pt"), megatron);
  EXPECT_EQ(hint("tensorstore_index.json"),
            "export it with EasyDeL first: model.to_torch().save_pretrained(DIR)");
  EXPECT_EQ(hint("saved_model.pb"), "");
  const TempDir tree;
  EXPECT_EQ(foreign_export(StorePath(tree.path())), "");
  write_text(tree / "common.pt", "x");
  write_text(tree / "metadata.json", "{}");
  EXPECT_EQ(foreign_export(StorePath(tree.path())), megatron);
}

TEST(OpenSource, ACheckpointOfTwoFormatsIsCalledTheFirst) {
  const TempDir dir;
  write_text(dir / ".metadata", "");
  write_text(dir / "manifest.ocdbt", "");
  const Error error = catch_error([&] { open_source(StorePath(dir.path())); });
  EXPECT_EQ(error.code(), ErrorCode::unsupported);
  EXPECT_EQ(error.sentence(), "a checkpoint in format orbax isn't a Hugging Face model");
  EXPECT_EQ(error.file(), dir.path());
  EXPECT_EQ(error.hint_text(),
            "run hfshard reshard for another mesh, or convert --to safetensors to get the Hugging "
            "Face model");
  EXPECT_FALSE(takes_root(StorePath(dir.path())));
}

}  // namespace
}  // namespace hfshard
