#pragma once

namespace hfshard {

/// Part of the plan id, since another version may write other bytes.
inline constexpr const char* kVersion = "0.2.0";

/// The date on the manual pages: when this version was begun or released.
inline constexpr const char* kVersionDate = "2026-11-22";

}  // namespace hfshard
