#pragma once

#include <gtest/gtest.h>

#include "hfshard/error.h"

namespace hfshard {

/// Runs the action and returns the Error that it throws. The test fails if it doesn't throw.
template <typename Action>
Error catch_error(Action&& action) {
  try {
    action();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "no error was thrown";
  return Error(ErrorCode::internal, "no error was thrown");
}

}  // namespace hfshard
