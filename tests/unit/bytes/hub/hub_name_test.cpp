#include "bytes/hub/hub_name.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "support/catch_error.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

constexpr std::string_view kSomeMirror = "http://127.0.0.1:8080/hf";
constexpr std::string_view kSomeCommit = "0123456789abcdef0123456789abcdef01234567";

std::optional<HubName> hub_name(std::string_view text) { return parse_hub_name(text, kSomeMirror); }

TEST(HubName, ReadsPlainNames) {
  EXPECT_EQ(hub_name("Qwen/Qwen3-0.6B"), (HubName{"Qwen/Qwen3-0.6B", "", ""}));
  EXPECT_EQ(hub_name("gpt2"), (HubName{"gpt2", "", ""}));
  EXPECT_EQ(hub_name("org/name@v1.0"), (HubName{"org/name", "v1.0", ""}));
  EXPECT_EQ(hub_name("org/name@refs/pr/3"), (HubName{"org/name", "refs/pr/3", ""}));
  EXPECT_EQ(hub_name("org/name@feature/x"), (HubName{"org/name", "feature/x", ""}));
  EXPECT_EQ(hub_name("_a/b_"), (HubName{"_a/b_", "", ""}));
}

TEST(HubName, LeavesAloneWhatIsAPathOrAnotherUrl) {
  for (const std::string_view text : {"",
                                      "/models/x",
                                      "./x",
                                      "../x",
                                      "~/x",
                                      "a/b/c",
                                      "a b",
                                      "a/",
                                      "/",
                                      "a//b",
                                      "x@",
                                      "@v1",
                                      "a/b@",
                                      "a/b@..",
                                      "a/b@x..y",
                                      "models--org--name",
                                      "org/na--me",
                                      "-a/b",
                                      "a/b.",
                                      "a/.b",
                                      "org/x.git",
                                      "gs://bucket/x",
                                      "https://example.com/org/name",
                                      "file:///x",
                                      "a\nb",
                                      "a\\b",
                                      "a:b",
                                      "https://huggingface.co.evil.org/a/b",
                                      "http://127.0.0.1:80801/hf/a/b",
                                      "http://127.0.0.1:8080/other/a/b"}) {
    EXPECT_FALSE(hub_name(text)) << text;
  }
  EXPECT_FALSE(hub_name("org/\xC3\xA9t\xC3\xA9"));  // the Hub only has ASCII letters
  EXPECT_FALSE(hub_name(std::string("a/b\0c", 5)));
}

TEST(HubName, ReadsUris) {
  EXPECT_EQ(hub_name("hf://org/name"), (HubName{"org/name", "", ""}));
  EXPECT_EQ(hub_name("HF://models/org/name/"), (HubName{"org/name", "", ""}));
  EXPECT_EQ(hub_name("hf://org/name@v1/sub/config.json"),
            (HubName{"org/name", "v1", "sub/config.json"}));
  EXPECT_EQ(hub_name("hf://org/name/a@b.json"), (HubName{"org/name", "", "a@b.json"}));
  EXPECT_EQ(hub_name("hf://org/name@refs/pr/10/config.json"),
            (HubName{"org/name", "refs/pr/10", "config.json"}));
  EXPECT_EQ(hub_name("hf://org/name@refs/convert/parquet/x"),
            (HubName{"org/name", "refs/convert/parquet", "x"}));
  EXPECT_EQ(hub_name("hf://org/name@refs/pr/10"), (HubName{"org/name", "refs/pr/10", ""}));
  EXPECT_EQ(hub_name("hf://org/name@feature%2Fx/y"), (HubName{"org/name", "feature/x", "y"}));
  EXPECT_EQ(hub_name("hf://gpt2"), (HubName{"gpt2", "", ""}));
  EXPECT_EQ(hub_name("hf://gpt2@main/config.json"), (HubName{"gpt2", "main", "config.json"}));
}

TEST(HubName, SlashesAtTheEndOfAUriDoNotCount) {
  EXPECT_EQ(hub_name("hf://org/name@main/sub/"), (HubName{"org/name", "main", "sub"}));
  EXPECT_EQ(hub_name("hf://org/name@main/sub/dir//"), (HubName{"org/name", "main", "sub/dir"}));
  EXPECT_EQ(hub_name("hf://org/name/sub/"), (HubName{"org/name", "", "sub"}));
  EXPECT_EQ(hub_name("hf://org/name@refs/pr/1/"), (HubName{"org/name", "refs/pr/1", ""}));
  EXPECT_EQ(hub_name("hf://org/name//"), (HubName{"org/name", "", ""}));
  EXPECT_EQ(hub_name("hf://gpt2/"), (HubName{"gpt2", "", ""}));
  EXPECT_EQ(hub_name("https://hf.co/org/name/tree/main/sub//"),
            (HubName{"org/name", "main", "sub"}));
}

// The kind can be left out, so a model may have its name.
TEST(HubName, AModelMayBeCalledModels) {
  EXPECT_EQ(hub_name("hf://models"), (HubName{"models", "", ""}));
  EXPECT_EQ(hub_name("https://hf.co/models"), (HubName{"models", "", ""}));
  EXPECT_EQ(hub_name("hf://models/gpt2"), (HubName{"gpt2", "", ""}));
  EXPECT_EQ(hub_name("hf://models/gpt2@v1/a"), (HubName{"gpt2", "v1", "a"}));
  EXPECT_EQ(hub_name("https://hf.co/models/gpt2"), (HubName{"gpt2", "", ""}));
}

// A URI has the path as it is, and a URL has it encoded.
TEST(HubName, OnlyAUrlsPathIsDecoded) {
  EXPECT_EQ(hub_name("hf://org/name@a%2Fb/c%20d?e#f"), (HubName{"org/name", "a/b", "c%20d?e#f"}));
  EXPECT_EQ(hub_name("https://hf.co/org/name/blob/a%2Fb/c%20d?e#f"),
            (HubName{"org/name", "a/b", "c d"}));
  EXPECT_FALSE(hub_name("org/name@a%2Fb/c:d"));
  EXPECT_EQ(hub_name("org/name@a%2Fb"), (HubName{"org/name", "a%2Fb", ""}));
}

TEST(HubName, ReadsUrlsOfTheSiteAndOfTheEndpoint) {
  for (const std::string_view hub :
       {"https://huggingface.co", "HTTPS://HuggingFace.co", "http://hf.co", "hf.co",
        "https://www.huggingface.co", "http://127.0.0.1:8080/hf", "http://127.0.0.1:8080/hf/"}) {
    const std::string at = std::string(hub) + "/";
    EXPECT_EQ(hub_name(at + "org/name"), (HubName{"org/name", "", ""})) << at;
    EXPECT_EQ(hub_name(at + "org/name/?x=y#z"), (HubName{"org/name", "", ""}));
    EXPECT_EQ(hub_name(at + "models/org/name"), (HubName{"org/name", "", ""}));
    EXPECT_EQ(hub_name(at + "org/name/tree/v1"), (HubName{"org/name", "v1", ""}));
    EXPECT_EQ(hub_name(at + "org/name/tree"), (HubName{"org/name", "", ""}));
    EXPECT_EQ(hub_name(at + "org/name/tree/refs%2Fpr%2F1/sub/"),
              (HubName{"org/name", "refs/pr/1", "sub"}));
    EXPECT_EQ(hub_name(at + "org/name/tree/refs/pr/1"), (HubName{"org/name", "refs/pr/1", ""}));
    EXPECT_EQ(hub_name(at + "org/name/resolve/main/a%20b/%C3%A9%23.json?download=true"),
              (HubName{"org/name", "main", "a b/\xC3\xA9#.json"}));
    EXPECT_EQ(hub_name(at + "org/name/blob/main/config.json"),
              (HubName{"org/name", "main", "config.json"}));
    EXPECT_EQ(hub_name(at + "org/name/commit/" + std::string(kSomeCommit)),
              (HubName{"org/name", std::string(kSomeCommit), ""}));
    for (const std::string page : {"resolve", "blob", "blame", "raw", "commit", "tree"}) {
      EXPECT_EQ(hub_name(at + "org/name/" + page + "/v1/a/b"), (HubName{"org/name", "v1", "a/b"}));
      EXPECT_EQ(hub_name(at + "gpt2/" + page + "/v1/a"), (HubName{"gpt2", "v1", "a"}));
      EXPECT_EQ(hub_name(at + "gpt2/" + page + "/v1"), (HubName{"gpt2", "v1", ""}));
      EXPECT_EQ(hub_name(at + "org/" + page), (HubName{"org/" + page, "", ""}));  // a model's name
    }
    EXPECT_EQ(hub_name(at + "gpt2"), (HubName{"gpt2", "", ""}));
    EXPECT_EQ(hub_name(at + "gpt2/resolve/main/config.json"),
              (HubName{"gpt2", "main", "config.json"}));
  }
}

TEST(HubName, TheEndpointCanEndInSlashesAndIsNotEmpty) {
  for (const char* endpoint : {"http://h:8/hf", "http://h:8/hf/", "http://h:8/hf//"})
    EXPECT_EQ(parse_hub_name("http://h:8/hf/org/name", endpoint), (HubName{"org/name", "", ""}));
  for (const char* endpoint : {"", "/"})
    EXPECT_FALSE(parse_hub_name("/org/name", endpoint)) << endpoint;
}

TEST(HubName, RefusesWhatIsMeantToBeOneAndIsNot) {
  const std::vector<std::string_view> wrong = {"hf://",
                                               "hf:///",
                                               "hf://org/name@",
                                               "hf://org/name@/x",
                                               "hf://org//name",
                                               "hf://org/na me",
                                               "hf://org/name@v1//x",
                                               "hf://org/name@v1/../x",
                                               "hf://org/name/..",
                                               "hf://org/name@a..b/x",
                                               "hf://org/name@%2E%2E/x",
                                               "hf://org/name@%2",
                                               "hf://org/name@x%zz",
                                               "hf://org/na--me",
                                               "hf://org/name@v1/C:/x",
                                               "hf://org/name@v1/a\\..\\b",
                                               "https://huggingface.co",
                                               "https://huggingface.co/",
                                               "https://huggingface.co?org/name",
                                               "https://huggingface.co#org/name",
                                               "https://hf.co/org/name/discussions/1",
                                               "https://hf.co/org/name/blob/main/%2E%2E/x",
                                               "https://hf.co/org/name/blob/main/a%00b",
                                               "https://hf.co/org/name/blob/main/%",
                                               "https://hf.co//",
                                               "http://127.0.0.1:8080/hf"};
  for (const std::string_view text : wrong) {
    EXPECT_EQ(catch_error([&] { hub_name(text); }).code(), ErrorCode::usage) << text;
  }
  for (const std::string_view text :
       {"hf://datasets/org/name", "https://huggingface.co/spaces/org/name", "hf://buckets/a/b"}) {
    EXPECT_EQ(catch_error([&] { hub_name(text); }).code(), ErrorCode::unsupported) << text;
  }
}

TEST(HubName, SaysWhichRuleAnIdBreaks) {
  EXPECT_FALSE(repo_id_problem("a/" + std::string(96, 'b')));
  for (const std::string& id :
       {std::string(), "a/" + std::string(97, 'b'), std::string("a/b/c"), std::string("a..b"),
        std::string("a--b"), std::string("a.git"), std::string("/a"), std::string("a/"),
        std::string(".a"), std::string("a-"), std::string("a b"), std::string("a\nb")}) {
    EXPECT_TRUE(repo_id_problem(id)) << id;
  }
}

TEST(HubName, SaysWhichRuleARevisionBreaks) {
  EXPECT_FALSE(revision_problem(kSomeCommit));
  for (const std::string_view good : {"main", "v1.0", "refs/pr/1", "a/b/c", "x@y"}) {
    EXPECT_FALSE(revision_problem(good)) << good;
  }
  EXPECT_FALSE(revision_problem(std::string(255, 'a')));
  for (const std::string& bad :
       {std::string(), std::string("/"), std::string("a/"), std::string("/a"), std::string("a//b"),
        std::string("a/../b"), std::string(".."), std::string("a/.b"), std::string("a.lock"),
        std::string("a.lock/b"), std::string("a b"), std::string("a\\b"), std::string("a\tb"),
        std::string("a\0b", 3), std::string("a?b"), std::string("a\x7f"), std::string(256, 'a')}) {
    EXPECT_TRUE(revision_problem(bad)) << bad;
  }
}

TEST(HubName, SaysWhichPathLeadsElsewhere) {
  for (const std::string_view good : {"a", "a/b.c", "..a/b..", "\xC3\xA9 #?.txt", "ab:c", "1:/c"}) {
    EXPECT_FALSE(repo_path_problem(good)) << good;
  }
  for (const std::string& bad :
       {std::string(), std::string("/a"), std::string("a/"), std::string("a//b"), std::string("."),
        std::string("a/./b"), std::string("a/../b"), std::string("..\\a"), std::string("a\\..\\b"),
        std::string("\\\\host\\x"), std::string("C:\\x"), std::string("a/C:b"),
        std::string("a\0b", 3), std::string("a\nb"), std::string("a\x7f")}) {
    EXPECT_TRUE(repo_path_problem(bad)) << bad;
  }
  EXPECT_EQ(repo_path_problem(""), "the path is empty");
  EXPECT_EQ(repo_path_problem("a//b"),
            "the path has an empty part, or begins or ends with a slash");
  EXPECT_EQ(repo_path_problem("a/../b"), "the path has the part \"..\"");
  EXPECT_EQ(repo_path_problem("a/C:b"), "the path has the drive \"C:\"");
  EXPECT_EQ(repo_path_problem("a\nb"), "the path has \"\\x0a\"");
}

TEST(HubName, EscapesForUrls) {
  EXPECT_EQ(escape_revision("refs/pr/3"), "refs%2Fpr%2F3");
  EXPECT_EQ(escape_revision("v1.0-a_b~c"), "v1.0-a_b~c");
  EXPECT_EQ(escape_path("sub dir/\xC3\xA9#?.txt"), "sub%20dir/%C3%A9%23%3F.txt");
  EXPECT_EQ(escape_path("a%20b+c&d"), "a%2520b%2Bc%26d");
  std::string all;
  for (int c = 0; c < 256; ++c) all.push_back(static_cast<char>(c));
  EXPECT_EQ(unescape_percent(escape_path(all)), all);
  EXPECT_EQ(unescape_percent(escape_revision(all)), all);
  EXPECT_EQ(unescape_percent("%e9%E9"), "\xE9\xE9");
  for (const std::string_view bad : {"%", "a%2", "%g0", "%0g", "%%41"}) {
    EXPECT_FALSE(unescape_percent(bad)) << bad;
  }
}

TEST(HubName, KnowsDigests) {
  EXPECT_TRUE(is_commit(kSomeCommit));
  EXPECT_FALSE(is_commit(kSomeCommit.substr(1)));
  EXPECT_FALSE(is_commit("0123456789ABCDEF0123456789abcdef01234567"));
  EXPECT_TRUE(is_sha256(std::string(64, 'a')));
  EXPECT_FALSE(is_sha256(std::string(64, 'g')));
  EXPECT_FALSE(is_sha256(kSomeCommit));
}

TEST(HubName, TheRuleThatAnIdBreaksIsNamed) {
  const std::pair<std::string, const char*> problems[] = {
      {"", "the id is empty"},
      {"a/b/c", "an id has at most one '/'"},
      {"/a", "its organisation is empty"},
      {"a/", "its name is empty"},
      {"a b/c", "its organisation has \" \"; letters, digits, '-', '_' and '.' are allowed"},
      {"a/b!", "its name has \"!\"; letters, digits, '-', '_' and '.' are allowed"},
      {"-a/b", "its organisation begins or ends with '-' or '.'"},
      {"a/b.", "its name begins or ends with '-' or '.'"},
      {"a/" + std::string(97, 'b'), "its name has 97 characters, more than 96"},
      {"a--b/c", "an id can't have \"--\" or \"..\""},
      {"a/b..c", "an id can't have \"--\" or \"..\""},
      {"a/b.git", "an id can't end in \".git\""}};
  for (const auto& [id, why] : problems) EXPECT_EQ(repo_id_problem(id), why) << id;
  EXPECT_FALSE(repo_id_problem(std::string(97, 'a') + "/b")) << "a long organisation";
}

TEST(HubName, TheRuleThatARevisionBreaksIsNamed) {
  const std::pair<std::string, const char*> problems[] = {
      {"", "the revision is empty"},
      {std::string(256, 'a'), "the revision has 256 bytes, more than 255"},
      {"a~b", "the revision has \"~\""},
      {"a\tb", "the revision has \"\\x09\""},
      {"a..b", "the revision has \"..\""},
      {"a//b", "the revision has an empty part between its slashes"},
      {"a/.b", "a part of the revision begins with '.'"},
      {"a.lock/b", "a part of the revision ends in \".lock\""}};
  for (const auto& [revision, why] : problems) EXPECT_EQ(revision_problem(revision), why);
  for (const char c : std::string(" ~^:?*[\\"))
    EXPECT_TRUE(revision_problem(std::string("a") + c + "b")) << c;
}

TEST(HubName, ARefusalHasTheTextTheRuleAndAnExample) {
  const auto refused = [](std::string_view text) {
    const Error error = catch_error([&] { hub_name(text); });
    EXPECT_TRUE(error.hint_text().starts_with("pass org/name, org/name@revision, ") ||
                error.code() == ErrorCode::unsupported)
        << error.hint_text();
    return error.sentence();
  };
  EXPECT_EQ(refused("hf://a//b"), "\"hf://a//b\" doesn't name a model: its name is empty");
  EXPECT_EQ(refused("hf.co/"), "\"hf.co/\" doesn't name a model: its name is empty");
  EXPECT_EQ(refused("hf://a/b@"),
            "\"hf://a/b@\" doesn't name a model: the revision after '@' is empty");
  EXPECT_EQ(refused("hf://a/b@%2"),
            "\"hf://a/b@%2\" doesn't name a model: a '%' must have two hex digits after it");
  EXPECT_EQ(
      refused("https://hf.co/a/b/discussions"),
      "\"https://hf.co/a/b/discussions\" doesn't name a model: \"discussions\" isn't the page "
      "of a model, a folder or a file");
  EXPECT_EQ(refused("hf://a/b@v1/../c"),
            "\"hf://a/b@v1/../c\" doesn't name a model: the path has the part \"..\"");
  EXPECT_EQ(refused("hf://a/b@x..y"),
            "\"hf://a/b@x..y\" doesn't name a model: the revision has \"..\"");
  const Error other = catch_error([] { hub_name("https://hf.co/datasets/a/b"); });
  EXPECT_EQ(other.sentence(),
            "\"https://hf.co/datasets/a/b\" is in datasets, which don't hold models");
  EXPECT_EQ(other.hint_text(), "hfshard reads only models");
  for (const char* kind : {"datasets", "spaces", "kernels", "buckets"})
    EXPECT_EQ(catch_error([&] { hub_name(std::string("hf://") + kind + "/a/b"); }).code(),
              ErrorCode::unsupported)
        << kind;
}

}  // namespace
}  // namespace hfshard
