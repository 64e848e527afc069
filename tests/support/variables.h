#pragma once

#include <cstdlib>
#include <map>
#include <optional>
#include <string>

namespace hfshard {

/// Environment variables of a test. The process gets those back that it had before.
class Variables {
 public:
  /// Absent values remove their variables.
  using Values = std::map<std::string, std::optional<std::string>>;
  Variables() = default;
  explicit Variables(const Values& values) {
    for (const auto& [name, value] : values) set(name, value);
  }
  Variables(const std::string& name, const std::optional<std::string>& value) { set(name, value); }
  Variables(const Variables&) = delete;
  Variables& operator=(const Variables&) = delete;
  ~Variables() {
    for (const auto& [name, value] : before_) put(name, value);
  }
  void set(const std::string& name, const std::optional<std::string>& value) {
    const char* const now = std::getenv(name.c_str());
    before_.emplace(name, now == nullptr ? std::nullopt : std::optional<std::string>(now));
    put(name, value);
  }

 private:
  static void put(const std::string& name, const std::optional<std::string>& value) {
    if (value) {
      ::setenv(name.c_str(), value->c_str(), 1);
    } else {
      ::unsetenv(name.c_str());
    }
  }
  Values before_;
};

}  // namespace hfshard
