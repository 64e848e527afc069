#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>
#include <zstd.h>

#include "hfshard/error.h"

namespace hfshard {

/// The options of a frame.
struct FrameOptions {
  int level = 3;
  int window_log = 0;  ///< 0: the level's
  bool content_size = true;
  bool checksum = false;
};

/// Returns one zstd frame, made by the library itself.
inline std::string zstd_frame(std::string_view content, const FrameOptions& options = {}) {
  const std::unique_ptr<ZSTD_CCtx, std::size_t (*)(ZSTD_CCtx*)> context(ZSTD_createCCtx(),
                                                                        ZSTD_freeCCtx);
  const auto set = [&](ZSTD_cParameter parameter, int value) {
    HFSHARD_CHECK(ZSTD_isError(ZSTD_CCtx_setParameter(context.get(), parameter, value)) == 0);
  };
  set(ZSTD_c_compressionLevel, options.level);
  set(ZSTD_c_contentSizeFlag, options.content_size ? 1 : 0);
  set(ZSTD_c_checksumFlag, options.checksum ? 1 : 0);
  std::string out(ZSTD_compressBound(content.size()) + 32, '\0');
  ZSTD_inBuffer in{content.data(), content.size(), 0};
  ZSTD_outBuffer to{out.data(), out.size(), 0};
  if (options.window_log > 0) {
    // In two steps, since a frame of known size doesn't get a larger window than that.
    set(ZSTD_c_windowLog, options.window_log);
    in.size = content.size() / 2;
    HFSHARD_CHECK(ZSTD_compressStream2(context.get(), &to, &in, ZSTD_e_flush) == 0);
    in.size = content.size();
  }
  HFSHARD_CHECK(ZSTD_compressStream2(context.get(), &to, &in, ZSTD_e_end) == 0);
  out.resize(to.pos);
  return out;
}

}  // namespace hfshard
