#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "bytes/http/http.h"
#include "bytes/hub/hf_cache.h"

namespace hfshard {

// Interprets answers of hubs and data hosts: untrusted text, judged without further requests.

/// The redirect in an answer for `url`.
struct Redirect {
  std::string url;      ///< empty: not followed
  std::string problem;  ///< why not, as `it ...`
};
/// Follows HTTP addresses only, and from https only https ones.
Redirect redirect_of(const std::string& url, const HttpHeaders& headers);

/// Returns the lifetime of a signed URL, by the clock of its answer. A few minutes if neither
/// states it. Years at most.
std::chrono::seconds life_of_url(const std::string& url, const HttpHeaders& headers);

/// Returns the problem with the head of an answer (200 or 206) to a request for `want`, not empty,
/// of a file of `size_bytes`. Empty without a problem. `of_hub`: a hub sent it, not a data host.
/// Callers check this before they use the body (hub-protocol 1.6).
std::string range_problem(int status, const HttpHeaders& headers, const ByteRange& want,
                          std::uint64_t size_bytes, bool of_hub);

/// Returns the files on a page of a listing. Their paths aren't checked. Throws: bad_input.
std::vector<TreeFile> listed_files(const Json& page);
/// Returns the page in `Link: <url>; rel="next"`, unchanged.
std::optional<std::string> next_page(const HttpHeaders& headers);

}  // namespace hfshard
