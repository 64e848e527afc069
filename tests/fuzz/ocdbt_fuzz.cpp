// Fuzzes bodies of an OCDBT manifest and of its index nodes, in an envelope with the right
// checksum. Decoded bodies must be encoded again as the same ones.

#include <string>

#include "base/coding.h"
#include "format/orbax/ocdbt/manifest.h"
#include "format/orbax/ocdbt/node.h"
#include "fuzz/fuzz_target.h"

#include "hfshard/error.h"

namespace hfshard {

void fuzz_ocdbt_manifest(std::string_view bytes) {
  using namespace format::orbax::ocdbt;
  const std::string sealed = seal(kManifestMagic, bytes);
  const Origin origin{"manifest.ocdbt", 0, sealed.size()};
  const Manifest manifest = decode_manifest(as_bytes(sealed), origin);
  if (manifest.is_numbered) return;  // never written
  HFSHARD_CHECK(decode_manifest(as_bytes(encode_manifest(manifest)), origin) == manifest);
}

void fuzz_ocdbt_node(std::string_view bytes) {
  using namespace format::orbax::ocdbt;
  const std::string sealed = seal(kNodeMagic, bytes);
  const Origin origin{"d/data", 0, sealed.size()};
  const Node node = decode_node(as_bytes(sealed), origin);
  HFSHARD_CHECK(decode_node(as_bytes(encode_node(node)), origin) == node);
}

}  // namespace hfshard
