#include "support/test_data.h"

namespace hfshard {

// The only file of the tests that is compiled with the place of the checkout. All others come out
// of a compiler cache that another checkout has filled.
std::string test_data(const std::string& name) { return HFSHARD_TEST_DATA "/" + name; }

}  // namespace hfshard
