#pragma once

#include <cstddef>
#include <cstdint>

// A target in the form of libFuzzer: it links with that one's main, or with replay_main.cpp. Input
// that is refused is no finding; a crash is, and an exception that is no Error or one that means a
// bug of ours.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
