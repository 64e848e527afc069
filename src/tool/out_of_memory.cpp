// std::terminate runs when a destructor, a noexcept function or a thread's start function lets
// std::bad_alloc out. Our own code must not do that. oneTBB does it if it is refused memory while
// it unwinds or keeps an exception. Finished work is in the journal, as after a kill.

#include "tool/out_of_memory.h"

#include <cstddef>
#include <cstdlib>
#include <exception>
#include <new>
#include <string_view>
#include <unistd.h>

#include <sys/mman.h>

#include "hfshard/error.h"

namespace hfshard {
namespace {

constexpr std::string_view kClearedLine = "\r\x1b[K";
constexpr std::string_view kText =
    "hfshard: error [limit]: out of memory\n"
    "  hint    give the process more memory; pass --resume to continue a conversion\n";

// NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables): the handler has no argument
std::terminate_handler g_before = nullptr;

// If standard error fails, nobody can be told. A stream could be locked by another thread.
void write_to_standard_error(std::string_view text) noexcept {
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
}

[[noreturn]] void end_out_of_memory() {
  print_out_of_memory();
  std::_Exit(exit_status(ErrorCode::limit));
}

bool has_memory() {
  constexpr std::size_t kTrialBytes = std::size_t{1} << 20;
  void* trial =
      ::mmap(nullptr, kTrialBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (trial == MAP_FAILED) return false;
  ::munmap(trial, kTrialBytes);
  return true;
}

[[noreturn]] void on_terminate() {
  try {
    if (std::current_exception()) throw;
    // Throwing needs memory. Without it, the standard library terminates instead.
    if (!has_memory()) end_out_of_memory();
  } catch (const std::bad_alloc&) {  // not our bug
    end_out_of_memory();
  } catch (...) {  // a bug
  }
  if (g_before != nullptr) g_before();
  std::abort();
}

}  // namespace

void print_out_of_memory() noexcept {
  if (::isatty(STDERR_FILENO) == 1) write_to_standard_error(kClearedLine);
  write_to_standard_error(kText);
}

void report_out_of_memory_on_terminate() {
  const std::terminate_handler before = std::set_terminate(&on_terminate);
  if (before != &on_terminate) g_before = before;
}

}  // namespace hfshard
