#pragma once

#include <cstdint>

namespace hfshard::format {

/// The pickle opcodes in checkpoints: those that torch writes with protocols 2 to 5, and those in
/// other savers' objects. Source: python/cpython Lib/pickletools.py, opcodes.
enum class Op : std::uint8_t {
  mark = '(',
  stop = '.',
  pop = '0',
  pop_mark = '1',
  dup = '2',
  bin_float = 'G',
  bin_int = 'J',
  bin_int1 = 'K',
  bin_int2 = 'M',
  none = 'N',
  bin_pers_id = 'Q',
  reduce = 'R',
  bin_bytes = 'B',
  short_bin_bytes = 'C',
  short_bin_string = 'U',
  bin_unicode = 'X',
  empty_list = ']',
  append = 'a',
  build = 'b',
  global = 'c',
  appends = 'e',
  bin_get = 'h',
  long_bin_get = 'j',
  bin_put = 'q',
  long_bin_put = 'r',
  set_item = 's',
  tuple = 't',
  set_items = 'u',
  empty_tuple = ')',
  empty_dict = '}',
  proto = 0x80,
  new_obj = 0x81,
  tuple1 = 0x85,
  tuple2 = 0x86,
  tuple3 = 0x87,
  new_true = 0x88,
  new_false = 0x89,
  long1 = 0x8a,
  long4 = 0x8b,
  short_bin_unicode = 0x8c,
  bin_unicode8 = 0x8d,
  bin_bytes8 = 0x8e,
  empty_set = 0x8f,
  add_items = 0x90,
  frozen_set = 0x91,
  new_obj_ex = 0x92,
  stack_global = 0x93,
  memoize = 0x94,
  frame = 0x95,
};

inline constexpr std::uint8_t kMaxProtocol = 5;

}  // namespace hfshard::format
