#include "run/engine/crew.h"

#include <condition_variable>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <pthread.h>
#include <utility>

#include "base/threads.h"

namespace hfshard {

// A thread that does one piece of work after another, until it must end.
class Crew::Member {
 public:
  // Returns 0, or the error of pthread_create.
  int start() {
    pthread_attr_t attributes;
    int error = ::pthread_attr_init(&attributes);
    if (error != 0) return error;
    error = ::pthread_attr_setstacksize(&attributes, kStartedStackBytes);
    if (error == 0) error = ::pthread_create(&thread_, &attributes, &Member::main, this);
    ::pthread_attr_destroy(&attributes);
    return error;
  }
  // Returns whether the thread could allocate some heap, which its first work needs.
  bool has_heap() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return has_heap_.has_value(); });
    return *has_heap_;
  }
  void begin(const std::function<void(unsigned)>* work, unsigned number) {
    const std::lock_guard lock(mutex_);
    work_ = work;
    number_ = number;
    changed_.notify_all();
  }
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return work_ == nullptr; });
  }
  Member* next = nullptr;  ///< in the waiting list

  void end() {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
      changed_.notify_all();
    }
    ::pthread_join(thread_, nullptr);
  }

 private:
  static void* main(void* self) {
    static_cast<Member*>(self)->run();
    return nullptr;
  }
  void run() {
    constexpr std::size_t kSomeBytes = 64;
    void* some = ::operator new(kSomeBytes, std::nothrow);
    std::unique_lock lock(mutex_);
    has_heap_ = some != nullptr;
    changed_.notify_all();
    for (;;) {
      changed_.wait(lock, [&] { return ends_ || work_ != nullptr; });
      if (ends_) break;
      lock.unlock();
      (*work_)(number_);
      lock.lock();
      work_ = nullptr;
      changed_.notify_all();
    }
    ::operator delete(some);
  }

  pthread_t thread_{};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<bool> has_heap_;
  bool ends_ = false;
  unsigned number_ = 0;
  const std::function<void(unsigned)>* work_ = nullptr;
};

namespace {

// A list of the waiting threads. Never destroyed: they wait until the process ends.
class Waiting {
 public:
  Crew::Member* take() {
    const std::lock_guard lock(mutex_);
    Crew::Member* member = first_;
    if (member != nullptr) first_ = member->next;
    return member;
  }
  void give_back(Crew::Member* member) {
    const std::lock_guard lock(mutex_);
    member->next = first_;
    first_ = member;
  }

 private:
  std::mutex mutex_;
  Crew::Member* first_ = nullptr;
};

Waiting& waiting() {
  static auto* const kWaiting = new Waiting;
  return *kWaiting;
}

}  // namespace

Crew::Crew(unsigned threads) {
  members_.reserve(threads);
  while (members_.size() < threads) {
    Member* member = waiting().take();
    if (member == nullptr) break;
    members_.push_back(member);
  }
  std::vector<std::unique_ptr<Member>> made;
  made.reserve(threads - members_.size());
  int error = 0;
  bool starved = false;
  while (error == 0 && members_.size() + made.size() < threads) {
    auto member = std::make_unique<Member>();
    error = member->start();
    if (error == 0) made.push_back(std::move(member));
  }
  for (const auto& member : made) starved |= !member->has_heap();
  if (error == 0 && !starved) {
    for (auto& member : made) members_.push_back(member.release());
    return;
  }
  const std::size_t refused = members_.size() + made.size() + 2;  // the caller is the first
  for (const auto& member : made) member->end();
  let_go();
  if (error == 0) throw std::bad_alloc();
  throw Error(
      refused_thread(refused, threads + 1, error,
                     "lower --jobs, or raise the limit (ulimit -u, ulimit -v, cgroup pids.max)"));
}

Crew::~Crew() {
  if (work_) {
    for (Member* member : members_) member->wait();
  }
  let_go();
}

void Crew::start(std::function<void(unsigned)> work) {
  work_ = std::move(work);
  for (unsigned i = 0; i < members_.size(); ++i) members_[i]->begin(&work_, i);
}

void Crew::let_go() noexcept {
  for (Member* member : members_) waiting().give_back(member);
}

}  // namespace hfshard
