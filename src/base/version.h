#pragma once

namespace hfshard {

/// Enters the plan id: another version may write other bytes.
inline constexpr const char* kVersion = "0.1.0";

/// Of the manual pages: when this version was begun, or released.
inline constexpr const char* kVersionDate = "2026-11-22";

}  // namespace hfshard
