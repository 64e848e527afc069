// The Hub's settings come from the environment, as huggingface_hub reads it.

#include "tool/hub_flags.h"

#include <ctime>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "support/catch_error.h"
#include "support/temp_dir.h"
#include "support/variables.h"

#include "hfshard/hfshard.h"

namespace hfshard {
namespace {

// Each test has only the variables that it sets. The others come back afterwards.
class HubFlags : public testing::Test {
 protected:
  HubFlags() {
    for (const char* name :
         {"HF_ENDPOINT", "HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "XDG_CACHE_HOME",
          "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_TOKEN_PATH", "HF_HUB_DISABLE_IMPLICIT_TOKEN",
          "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_HUB_ETAG_TIMEOUT",
          "HF_HUB_DOWNLOAD_TIMEOUT", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE",
          "HF_HUB_USER_AGENT_ORIGIN", "SOME_DIRECTORY"})
      set(name, nullptr);
    set("HOME", dir_.path().c_str());
  }
  void set(const std::string& name, const char* value) {
    variables_.set(name, value == nullptr ? std::nullopt : std::optional<std::string>(value));
  }
  static HubOptions read() {
    HubOptions out = hub_options(Session{});
    out.find_token(out);
    return out;
  }
  std::string home(const std::string& name) const { return dir_.path() + "/" + name; }

  TempDir dir_;

 private:
  Variables variables_;
};

TEST_F(HubFlags, WithoutVariablesTheDefaultsStand) {
  const HubOptions found = read();
  EXPECT_EQ(found.endpoint, HubOptions().endpoint);
  EXPECT_EQ(found.cache_directory, home(".cache/huggingface/hub"));
  EXPECT_FALSE(found.offline);
  EXPECT_EQ(found.metadata_timeout_seconds, HubOptions().metadata_timeout_seconds);
  EXPECT_EQ(found.download_timeout_seconds, HubOptions().download_timeout_seconds);
  EXPECT_EQ(found.ca_file + found.user_agent_suffix + found.token + found.token_from, "");
}

TEST_F(HubFlags, TheCacheIsInTheFirstDirectoryThatIsNamed) {
  set("XDG_CACHE_HOME", "/x");
  EXPECT_EQ(read().cache_directory, "/x/huggingface/hub");
  set("HF_HOME", "/home-of-hf/");
  EXPECT_EQ(read().cache_directory, "/home-of-hf/hub");
  set("HUGGINGFACE_HUB_CACHE", "/old");
  EXPECT_EQ(read().cache_directory, "/old");
  set("HF_HUB_CACHE", "/new");
  EXPECT_EQ(read().cache_directory, "/new");
  set("HF_HUB_CACHE", "");
  EXPECT_EQ(read().cache_directory, "/old") << "an empty variable isn't set";
}

TEST_F(HubFlags, PathsAreExpanded) {
  set("SOME_DIRECTORY", "/some");
  const std::vector<std::pair<const char*, std::string>> cases{
      {"~", dir_.path()},
      {"~/c", home("c")},
      {"~other/c", "~other/c"},
      {"/a/~", "/a/~"},
      {"$SOME_DIRECTORY", "/some"},
      {"${SOME_DIRECTORY}/c", "/some/c"},
      {"${SOME_DIRECTORY}x$SOME_DIRECTORY-y", "/somex/some-y"},
      {"$SOME_DIRECTORYx/c", "$SOME_DIRECTORYx/c"},
      {"${SOME_DIRECTORY", "${SOME_DIRECTORY"},
      {"/a$", "/a$"},
      {"/a${}b", "/a${}b"},
      {"/$/b", "/$/b"}};
  for (const auto& [given, wanted] : cases) {
    set("HF_HUB_CACHE", given);
    EXPECT_EQ(read().cache_directory, wanted) << given;
  }
}

TEST_F(HubFlags, OfflineIsWhatTheFirstVariableThatIsSetSays) {
  for (const char* yes : {"1", "ON", "on", "yes", "Yes", "true", "TRUE"}) {
    set("HF_HUB_OFFLINE", yes);
    EXPECT_TRUE(read().offline) << yes;
  }
  for (const char* no : {"0", "off", "no", "false", "2", "y"}) {
    set("HF_HUB_OFFLINE", no);
    EXPECT_FALSE(read().offline) << no;
  }
  set("TRANSFORMERS_OFFLINE", "1");
  EXPECT_FALSE(read().offline) << "the Hub's own variable comes first";
  set("HF_HUB_OFFLINE", "");
  EXPECT_TRUE(read().offline);
}

TEST_F(HubFlags, TimeoutsAreWholeSecondsAndZeroIsTheDefault) {
  set("HF_HUB_ETAG_TIMEOUT", "7");
  set("HF_HUB_DOWNLOAD_TIMEOUT", "99999");
  EXPECT_EQ(read().metadata_timeout_seconds, 7U);
  EXPECT_EQ(read().download_timeout_seconds, 99999U);
  set("HF_HUB_ETAG_TIMEOUT", "0");
  set("HF_HUB_DOWNLOAD_TIMEOUT", "00");
  EXPECT_EQ(read().metadata_timeout_seconds, HubOptions().metadata_timeout_seconds);
  EXPECT_EQ(read().download_timeout_seconds, HubOptions().download_timeout_seconds);
  for (const char* bad : {"-1", "1.5", "1s", " 1", "100000"}) {
    set("HF_HUB_ETAG_TIMEOUT", bad);
    const Error error = catch_error([] { read(); });
    EXPECT_EQ(error.code(), ErrorCode::usage) << bad;
    EXPECT_NE(error.sentence().find("HF_HUB_ETAG_TIMEOUT"), std::string::npos) << bad;
  }
}

TEST_F(HubFlags, TheFirstCertificateFileCounts) {
  set("CURL_CA_BUNDLE", "/curl");
  EXPECT_EQ(read().ca_file, "/curl");
  set("REQUESTS_CA_BUNDLE", "~/requests");
  EXPECT_EQ(read().ca_file, home("requests"));
  set("SSL_CERT_FILE", "/ssl");
  EXPECT_EQ(read().ca_file, "/ssl");
  set("HF_ENDPOINT", "https://mirror");
  EXPECT_EQ(read().endpoint, "https://mirror");
  set("HF_HUB_USER_AGENT_ORIGIN", "us");
  EXPECT_EQ(read().user_agent_suffix, "origin/us");
}

TEST_F(HubFlags, TheTokenComesFromAVariableOrElseFromAFile) {
  write_text(home(".cache/huggingface/token"), "hf_file\n");
  EXPECT_EQ(read().token, "hf_file");
  EXPECT_EQ(read().token_from, home(".cache/huggingface/token"));
  write_text(home("own"), " hf_own \r\n");
  set("HF_TOKEN_PATH", "~/own");
  EXPECT_EQ(read().token, "hf_own");
  EXPECT_EQ(read().token_from, home("own"));
  set("HF_TOKEN_PATH", "~/.cache");
  const Error directory = catch_error([] { read(); });
  EXPECT_NE(directory.code(), ErrorCode::not_found);
  EXPECT_EQ(directory.file(), home(".cache"));
  set("HUGGING_FACE_HUB_TOKEN", "hf_old");
  EXPECT_EQ(read().token, "hf_old");
  EXPECT_EQ(read().token_from, "HUGGING_FACE_HUB_TOKEN");
  set("HF_TOKEN", "\thf_new\n");
  EXPECT_EQ(read().token, "hf_new");
  EXPECT_EQ(read().token_from, "HF_TOKEN");
  set("HF_TOKEN", " ");
  EXPECT_EQ(read().token, "hf_old") << "blanks aren't a token";
  set("HF_HUB_DISABLE_IMPLICIT_TOKEN", "1");
  EXPECT_EQ(read().token, "");
  set("HF_HUB_DISABLE_IMPLICIT_TOKEN", "0");
  EXPECT_EQ(read().token, "hf_old");
  set("HF_TOKEN", "two words");
  const Error error = catch_error([] { read(); });
  EXPECT_EQ(error.code(), ErrorCode::usage);
  EXPECT_NE(error.sentence().find("HF_TOKEN"), std::string::npos);
  EXPECT_EQ(error.format().find("two words"), std::string::npos) << "a token is never printed";
}

TEST_F(HubFlags, OnlyASourceOnTheHubNeedsAToken) {
  set("HF_TOKEN", "two words");
  const Session session;
  const auto code_of = [&](const std::string& source) {
    const SourceName name = source_name(session, source, "");
    return catch_error([&] { open(name); }).code();
  };
  EXPECT_EQ(code_of(dir_.path()), ErrorCode::not_found);
  EXPECT_EQ(code_of(home("absent")), ErrorCode::not_found);
  EXPECT_EQ(code_of("hf://org/name"), ErrorCode::usage);
}

// A browser login has an expiry, which the Python client stores next to the token.
TEST_F(HubFlags, AnExpiredLoginIsNamedWithItsToken) {
  set("HF_HOME", dir_.path().c_str());
  write_text(home("token"), "hf_mine");
  const auto expired = [&](const std::string& stored) {
    write_text(home("stored_tokens"), stored);
    EXPECT_EQ(read().token, "hf_mine");
    return read().token_from.find("expired") != std::string::npos;
  };
  const std::string later = std::to_string(std::time(nullptr) + 100'000);
  EXPECT_TRUE(expired("[a]\nhf_token = hf_mine\nexpires_at = 1000\n"));
  EXPECT_TRUE(expired("[a]\nexpires_at: 1000\nhf_token: hf_mine\n\n[b]\nhf_token = hf_other\n"));
  EXPECT_FALSE(expired("[a]\nhf_token = hf_mine\nexpires_at = " + later + "\n"));
  EXPECT_FALSE(expired("[a]\nhf_token = hf_mine\n")) << "it never expires";
  EXPECT_FALSE(expired("[a]\nhf_token = hf_mine\n[b]\nhf_token = hf_other\nexpires_at = 1000\n"))
      << "another token has expired";
  EXPECT_FALSE(expired("[b]\nhf_token = hf_other\nexpires_at = 1000\n[a]\nhf_token = hf_mine\n"))
      << "another token, listed first, has expired";
  EXPECT_FALSE(expired("[a]\nhf_token = hf_mine\n[b]\nexpires_at = 1000\n")) << "not of this token";
  EXPECT_FALSE(expired("[a]\nhf_token = hf_mine\nexpires_at = soon\n"));
}

TEST_F(HubFlags, ErrorsAndExpiredLoginsHaveWholeSentences) {
  set("HF_HUB_DOWNLOAD_TIMEOUT", "1s");
  EXPECT_EQ(catch_error([] { read(); }).sentence(),
            "HF_HUB_DOWNLOAD_TIMEOUT=\"1s\" isn't a number of seconds");
  set("HF_HUB_DOWNLOAD_TIMEOUT", nullptr);
  set("HF_HOME", dir_.path().c_str());
  write_text(home("token"), "hf_mine");
  write_text(home("stored_tokens"), "[a]\nhf_token = hf_mine\nexpires_at = 1000\n");
  EXPECT_EQ(read().token_from, home("token") + "; it has expired: run hf auth whoami to renew it");
  write_text(home("token"), "hf \xc3\xa9");
  EXPECT_EQ(catch_error([] { read(); }).sentence(),
            home("token") +
                " doesn't hold a token: it has spaces or other characters that a token never has");
}

TEST_F(HubFlags, NotesOfTheHubArePrintedUnlessTheSessionIsQuiet) {
  const auto printed = [](bool quiet) {
    Session session;
    session.quiet = quiet;
    session.hub_retry_ms = 7;
    const SourceName source = source_name(session, "a/b", "v2");
    EXPECT_EQ(source.text, "a/b");
    EXPECT_EQ(source.revision, "v2");
    EXPECT_EQ(source.hub.retry_ms, 7U);
    testing::internal::CaptureStderr();
    source.hub.note("waiting");
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(printed(false), "note: waiting\n");
  EXPECT_EQ(printed(true), "");
}

}  // namespace
}  // namespace hfshard
