#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <zlib.h>

namespace hfshard {

/// Returns a stream by a usual encoder: gzip or, with `gzip` false, zlib.
inline std::string deflate_stream(std::string_view content, bool gzip = true, int level = 6) {
  z_stream stream{};
  const int bits = gzip ? 15 + 16 : 15;
  if (deflateInit2_(&stream, level, Z_DEFLATED, bits, 8, Z_DEFAULT_STRATEGY, ZLIB_VERSION,
                    static_cast<int>(sizeof(stream))) != Z_OK)
    throw std::runtime_error("deflateInit2");
  std::string in(content);
  std::string out(deflateBound(&stream, static_cast<uLong>(in.size())) + 32, '\0');
  stream.next_in = static_cast<Bytef*>(static_cast<void*>(in.data()));
  stream.avail_in = static_cast<uInt>(in.size());
  stream.next_out = static_cast<Bytef*>(static_cast<void*>(out.data()));
  stream.avail_out = static_cast<uInt>(out.size());
  const int code = deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  if (code != Z_STREAM_END) throw std::runtime_error("deflate");
  return out;
}

}  // namespace hfshard
