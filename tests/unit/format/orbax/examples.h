#pragma once

#include <string>
#include <string_view>

namespace hfshard::format::orbax::ocdbt {

// Complete OCDBT objects, each opened and listed by google/tensorstore 0.1.86. All use the uuid 00
// 01 .. 0f, Orbax's limits, no compression and the commit time 1700000000000000000 ns.

inline std::string from_hex(std::string_view hex) {
  const auto digit = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
  std::string out;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    out += static_cast<char>(digit(hex[i]) * 16 + digit(hex[i + 1]));
  }
  return out;
}

// A: one leaf with keys `w/.zarray` -> `{}` (inline) and `w/0` -> `ABCDEFGH` (in the file, in front
// of the leaf).
inline const std::string kFileA = "d/00112233445566778899aabbccddeeff";
inline const std::string kLeafA = from_hex(
    "0cdb20de4e00000000000000000000012200642f303031313232333334343535363637373838393961616262636364"
    "64"
    "6565666602020901772f2e7a6172726179300208000100007b7d5c5123fd");
inline const std::string kManifestA = from_hex(
    "0cdb3a2a62000000000000000000000102030405060708090a0b0c0d0e0f00800880c2d72f0400012200642f303031"
    "31"
    "3232333334343535363637373838393961616262636364646565666601010000084e024e0800002a36fe9c97170070"
    "6b"
    "e0c5");

// The same database without keys.
inline const std::string kManifestEmpty = from_hex(
    "0cdb3a2a52000000000000000000000102030405060708090a0b0c0d0e0f00800880c2d72f040001000001010000ff"
    "ff"
    "ffffffffffffff01ffffffffffffffffff0100000000002a36fe9c9717004c580c4e");

// B: two levels. Keys are p.a/c/0, p.a/zarr.json, p.b/c/0, p.b/zarr.json. Values of 16 bytes are in
// d/000.. and d/111.. Nodes are in d/fff..: leaf p.a/ at 0, leaf p.b/ at 85, root at 170.
inline const std::string kFileB0 = "d/" + std::string(32, '0');
inline const std::string kFileB1 = "d/" + std::string(32, '1');
inline const std::string kNodesB = "d/" + std::string(32, 'f');
inline const std::string kLeafB0 = from_hex(
    "0cdb20de5500000000000000000000012200642f303030303030303030303030303030303030303030303030303030"
    "30"
    "3030303002000309632f307a6172722e6a736f6e1007010000007b2241223a317dc2970c42");
inline const std::string kLeafB1 = from_hex(
    "0cdb20de5500000000000000000000012200642f313131313131313131313131313131313131313131313131313131"
    "31"
    "3131313102000309632f307a6172722e6a736f6e1007010000007b2242223a317db6701991");
inline const std::string kRootB = from_hex(
    "0cdb20de5600000000000000000001012200642f666666666666666666666666666666666666666666666666666666"
    "66"
    "66666666020207050404702e612f632f30622f632f300000005555550202555510109adb64e8");
inline const std::string kManifestB = from_hex(
    "0cdb3a2a64000000000000000000000102030405060708090a0b0c0d0e0f00800880c2d72f0400012200642f666666"
    "66"
    "6666666666666666666666666666666666666666666666666666666601010100aa01560480022000002a36fe9c9717"
    "00"
    "952141d8");

// C: a merged leaf with base paths; keys w/c/0/0, w/c/1/0 (5 bytes each, one in each process's
// file), w/zarr.json.
inline const std::string kFileC0 = "ocdbt.process_0/d/" + std::string(32, '0');
inline const std::string kFileC1 = "ocdbt.process_1/d/" + std::string(32, '1');
inline const std::string kLeafC = from_hex(
    "0cdb20de9400000000000000000000020e322410106f636462742e70726f636573735f302f642f3030303030303030"
    "30"
    "3030303030303030303030303030303030303030303030312f642f3131313131313131313131313131313131313131"
    "31"
    "3131313131313131313131030402070309772f632f302f30312f307a6172722e6a736f6e050502010100000100007b"
    "7d"
    "42efbd4d");

}  // namespace hfshard::format::orbax::ocdbt
