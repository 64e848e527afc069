#include "bytes/http/libcurl.h"

#include <bit>
#include <dlfcn.h>

#include <fmt/format.h>

#include "hfshard/error.h"

namespace hfshard {
namespace {

// The name since 7.16, which programs also link to (libcurl: VERSIONINFO in lib/Makefile.am).
constexpr const char* kName = "libcurl.so.4";

[[noreturn]] void refuse() {
  const char* const why = ::dlerror();
  throw Error(ErrorCode::unsupported,
              fmt::format("can't load libcurl, which hfshard needs for Hub models: {}",
                          why == nullptr ? kName : why))
      .hint("install it (Debian: libcurl4), or pass a directory with the model");
}

template <typename Function>
void find(void* library, const char* name, Function& out) {
  void* const found = ::dlsym(library, name);
  if (found == nullptr) refuse();
  out = std::bit_cast<Function>(found);
}

Libcurl load() {
  void* const library = ::dlopen(kName, RTLD_NOW | RTLD_LOCAL);  // never unloaded
  if (library == nullptr) refuse();
  Libcurl out;
  find(library, "curl_global_init", out.global_init);
  find(library, "curl_free", out.free);
  find(library, "curl_easy_init", out.easy_init);
  find(library, "curl_easy_cleanup", out.easy_cleanup);
  find(library, "curl_easy_setopt", out.easy_setopt);
  find(library, "curl_easy_getinfo", out.easy_getinfo);
  find(library, "curl_easy_strerror", out.easy_strerror);
  find(library, "curl_multi_init", out.multi_init);
  find(library, "curl_multi_cleanup", out.multi_cleanup);
  find(library, "curl_multi_setopt", out.multi_setopt);
  find(library, "curl_multi_add_handle", out.multi_add_handle);
  find(library, "curl_multi_remove_handle", out.multi_remove_handle);
  find(library, "curl_multi_perform", out.multi_perform);
  find(library, "curl_multi_poll", out.multi_poll);
  find(library, "curl_multi_wakeup", out.multi_wakeup);
  find(library, "curl_multi_info_read", out.multi_info_read);
  find(library, "curl_multi_strerror", out.multi_strerror);
  find(library, "curl_slist_append", out.slist_append);
  find(library, "curl_slist_free_all", out.slist_free_all);
  find(library, "curl_url", out.url);
  find(library, "curl_url_cleanup", out.url_cleanup);
  find(library, "curl_url_get", out.url_get);
  find(library, "curl_url_set", out.url_set);
  if (out.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
    throw Error(ErrorCode::internal, "can't start libcurl");
  return out;
}

}  // namespace

const Libcurl& libcurl() {
  static const Libcurl kLoaded = load();
  return kLoaded;
}

}  // namespace hfshard
