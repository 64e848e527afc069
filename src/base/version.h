#pragma once

namespace hfshard {

/// Enters the plan id: another version may write other bytes.
inline constexpr const char* kVersion = "0.1.0";

}  // namespace hfshard
