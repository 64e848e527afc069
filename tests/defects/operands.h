#pragma once

// Included before each source file of a build by tests/defects/operands.py. Notes what each operand
// of a condition was, and can change one.

#include "switches.h"

namespace hfshard_operands {

// A byte of `reached` has them for one operand.
enum Seen : unsigned char { seen_true = 1, seen_false = 2, seen_equal = 4 };
// The number in `on` is that of a change. Each operand has `changes` of them.
enum Change { take_true, take_false, flip_if_equal, changes };

inline void note(int number, Seen seen) {
  unsigned char* const reached = hfshard_defects::switches().reached;
  if (reached != nullptr) reached[number] |= seen;
}

inline bool operand(int number, bool value) {
  note(number, value ? seen_true : seen_false);
  const int on = hfshard_defects::switches().on;
  if (on == changes * number + take_true) return true;
  if (on == changes * number + take_false) return false;
  return value;
}

// The same for a comparison. `equal`: whether both sides are equal.
inline bool comparison(int number, bool value, bool equal) {
  if (equal) note(number, seen_equal);
  const bool flips = equal && hfshard_defects::switches().on == changes * number + flip_if_equal;
  return flips ? !value : operand(number, value);
}

}  // namespace hfshard_operands
