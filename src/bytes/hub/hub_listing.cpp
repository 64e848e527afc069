#include "bytes/hub/hub_listing.h"

#include <set>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"
#include "base/typed.h"
#include "bytes/hub/hub_answers.h"
#include "bytes/hub/hub_name.h"

namespace hfshard {
namespace {

constexpr std::size_t kMostFiles = 1'000'000;
// A hub lists a thousand files per page.
constexpr std::size_t kMostPages = 2000;
constexpr std::size_t kMostEmptyPages = 3;
constexpr std::size_t kSaidNames = 8;
constexpr std::size_t kSaidModels = 3;
constexpr std::size_t kMostOfOwner = 500;

Json parse_answer(const HubAnswer& answer) {
  try {
    return parse_json(answer.body, shown_url(answer.url));
  } catch (const Error& error) {
    throw Error(ErrorCode::network, fmt::format("the answer isn't JSON: {}", error.sentence()))
        .in_file(shown_url(answer.url))
        .hint("a proxy or a network's login page may have answered");
  }
}

HubAnswer ask_api(HubClient& client, const std::string& url, const std::string& repo,
                  const std::string& revision) {
  HubAnswer answer = client.ask_now({url, std::nullopt});
  if (answer.elsewhere) {
    throw Error(ErrorCode::network, fmt::format("it redirects to {}, which isn't a Hub",
                                                quote(shown_url(*answer.elsewhere))))
        .in_file(shown_url(answer.url));
  }
  if (answer.status < 200 || answer.status > 299) {
    throw client.refusal(answer, repo, revision, {});
  }
  return answer;
}

// Returns the names in an answer, as a hint for a mistyped one. After a failure, returns those
// before it.
template <typename Take>
std::vector<std::string> helpful_names(HubClient& client, const std::string& url,
                                       const std::string& repo, const Take& take) {
  std::vector<std::string> out;
  try {
    take(parse_answer(ask_api(client, url, repo, {})), out);
  } catch (const Error& error) {  // it was only for a hint
    if (error.code() == ErrorCode::cancelled) throw;
  }
  return out;
}

// Returns the branches and tags of a model.
std::vector<std::string> known_revisions(HubClient& client, const std::string& repo) {
  const std::string url = fmt::format("{}/api/models/{}/refs", client.endpoint(), repo);
  return helpful_names(client, url, repo, [](const Json& refs, std::vector<std::string>& out) {
    for (const char* kind : {"branches", "tags"}) {
      for (const Json& ref : refs.at(kind).as_array())
        out.push_back(printable(ref.at("name").as_string()));
    }
  });
}

// Returns the models that a hub finds, the most used first.
// Source: huggingface/huggingface_hub src/huggingface_hub/hf_api.py list_models.
std::vector<std::string> found_models(HubClient& client, const std::string& question) {
  const std::string url =
      fmt::format("{}/api/models?{}&sort=downloads", client.endpoint(), question);
  return helpful_names(client, url, {}, [](const Json& models, std::vector<std::string>& out) {
    for (const Json& model : models.as_array())
      out.push_back(printable(model.at("id").as_string()));
  });
}

// Returns similar names of the same owner, or else the same name of other owners.
std::vector<std::string> near_models(HubClient& client, const std::string& repo) {
  const std::size_t slash = repo.find('/');
  if (slash != std::string::npos) {
    const std::string owner = repo.substr(0, slash);
    std::vector<std::string> near = near_names(
        repo, found_models(client, fmt::format("author={}&limit={}", owner, kMostOfOwner)));
    if (!near.empty()) return near;
  }
  const std::string name = slash == std::string::npos ? repo : repo.substr(slash + 1);
  return found_models(client, fmt::format("search={}&limit={}", name, kSaidModels));
}

HubAnswer ask_revision(HubClient& client, const std::string& url, const std::string& repo,
                       const std::string& revision) {
  try {
    return ask_api(client, url, repo, revision);
  } catch (Error& error) {
    if (error.code() != ErrorCode::not_found) throw;
    std::vector<std::string> known =
        revision.empty() ? std::vector<std::string>() : known_revisions(client, repo);
    if (!known.empty()) {
      if (meant_names(revision, known).empty() && known.size() > kSaidNames)
        known.resize(kSaidNames);
      error.hint(name_hint(revision, known));
    } else if (const auto near = near_models(client, repo); !near.empty()) {
      throw Error(error.code(), error.sentence())
          .in_file(error.file())
          .hint(fmt::format("did you mean {}? {}", join(near, ", "), error.hint_text()));
    }
    throw;
  }
}

// A mirror can name the original hub. Then the page is at the endpoint.
std::string at_endpoint(const HubClient& client, const std::string& from, const std::string& link) {
  const auto next = resolve_location(from, link);
  const auto origin = next ? origin_of(*next) : std::nullopt;
  if (!origin || !client.is_hub(*origin)) {
    throw Error(ErrorCode::network,
                fmt::format("the next page of the listing is at {}", quote(shown_url(link))))
        .in_file(shown_url(from));
  }
  const std::size_t path = next->find('/', next->find("://") + 3);
  if (origin == origin_of(client.endpoint()) || path == std::string::npos) return *next;
  return client.endpoint() + next->substr(path);
}

// Refuses a listing without an end.
void check_ends(std::size_t pages, std::size_t empty, const std::string& url) {
  if (empty < kMostEmptyPages && pages < kMostPages) return;
  const std::string what = empty < kMostEmptyPages
                               ? fmt::format("{} pages", pages)
                               : fmt::format("{} pages without a file in a row", empty);
  throw Error(ErrorCode::network, fmt::format("the listing has {} and doesn't end", what))
      .in_file(shown_url(url))
      .hint("the server isn't a Hub; check HF_ENDPOINT");
}

}  // namespace

HubRepo resolve_revision(HubClient& client, const std::string& repo, const std::string& revision) {
  if (is_commit(revision)) return {repo, revision};
  const std::string tail =
      revision.empty() ? std::string() : "/revision/" + escape_revision(revision);
  const std::string url = fmt::format("{}/api/models/{}{}", client.endpoint(), repo, tail);
  const HubAnswer answer = ask_revision(client, url, repo, revision);
  const Json info = parse_answer(answer);
  const Json* sha = info.find("sha");
  if (sha == nullptr || !sha->is_string() || !is_commit(sha->as_string())) {
    throw Error(ErrorCode::network, "the answer doesn't come from a Hub: it lacks a commit")
        .in_file(shown_url(answer.url))
        .hint("a proxy or a network's login page may have answered");
  }
  return {repo, sha->as_string()};
}

std::vector<TreeFile> list_files(HubClient& client, const HubRepo& repo) {
  std::vector<TreeFile> out;
  std::string url = fmt::format("{}/api/models/{}/tree/{}?recursive=true&expand=false",
                                client.endpoint(), repo.name, repo.commit);
  std::set<std::string> seen;
  bool told = false;
  std::size_t empty = 0;  // pages in a row
  while (true) {
    if (!seen.insert(url).second) {
      throw Error(ErrorCode::network, "the listing's pages go in circles").in_file(shown_url(url));
    }
    const HubAnswer answer = ask_api(client, url, repo.name, repo.commit);
    const Json page = parse_answer(answer);
    try {
      for (TreeFile& file : listed_files(page)) {
        if (const auto problem = repo_path_problem(file.path)) {  // it can't be requested
          if (!told && client.options().note) {
            client.options().note(
                fmt::format("leaves out {} of {}: {}", quote(file.path), repo.name, *problem));
          }
          told = true;
          continue;
        }
        out.push_back(std::move(file));
      }
    } catch (const Error& error) {
      throw Error(ErrorCode::network,
                  fmt::format("the answer isn't a listing of files: {}", error.sentence()))
          .in_file(shown_url(url));
    }
    if (out.size() > kMostFiles) {
      throw Error(ErrorCode::limit, "the model has more than a million files")
          .in_file(shown_url(url));
    }
    empty = page.as_array().empty() ? empty + 1 : 0;
    const auto next = next_page(answer.headers);
    if (!next) return out;
    check_ends(seen.size(), empty, url);
    url = at_endpoint(client, answer.url, *next);
  }
}

}  // namespace hfshard
