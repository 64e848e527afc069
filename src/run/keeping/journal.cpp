#include "run/keeping/journal.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <fcntl.h>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "base/coding.h"
#include "base/crc32c.h"
#include "bytes/files.h"
#include "bytes/syscalls.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

constexpr std::uint32_t kMagic = 0x324a4648;  // "HFJ2"
constexpr std::size_t kHeader = 8;
constexpr std::size_t kFixed = 32 + 4 * 8;
constexpr std::size_t kPerSlot = 24;
constexpr std::size_t kPerChunk = 4;
constexpr std::uint64_t kMaxJournal = std::uint64_t{1} << 32;

void put_plan_id(std::byte* to, const std::string& plan_id) {
  for (std::size_t i = 0; i < 32; ++i) {
    unsigned value = 0;
    std::from_chars(plan_id.data() + 2 * i, plan_id.data() + 2 * i + 2, value, 16);
    to[i] = static_cast<std::byte>(value);
  }
}

std::vector<std::byte> encode_record(const JournalRecord& record, const std::string& plan_id) {
  const std::size_t payload =
      kFixed + record.digests.size() * kPerSlot + record.lengths.size() * kPerChunk;
  std::vector<std::byte> out(kHeader + payload + 4);
  store_le(out.data(), kMagic);
  store_le(out.data() + 4, static_cast<std::uint32_t>(payload));
  std::byte* at = out.data() + kHeader;
  put_plan_id(at, plan_id);
  store_le(at + 32, record.begin);
  store_le(at + 40, record.end);
  store_le(at + 48, record.overflows);
  store_le(at + 56, static_cast<std::uint64_t>(record.digests.size()));
  at += kFixed;
  for (const SlotDigest& digest : record.digests) {
    store_le(at, digest.slot);
    store_le(at + 8, digest.sum.low);
    store_le(at + 16, digest.sum.high);
    at += kPerSlot;
  }
  for (const std::uint32_t length : record.lengths) {
    store_le(at, length);
    at += kPerChunk;
  }
  store_le(at, crc32c(std::span(out).first(kHeader + payload)));
  return out;
}

// Parses one record at the front of `bytes`; false at the first bad one.
bool decode_record(std::span<const std::byte>& bytes, const std::string& plan_id,
                   JournalRecord& out) {
  if (bytes.size() < kHeader + kFixed + 4 || load_le<std::uint32_t>(bytes.data()) != kMagic)
    return false;
  const std::size_t payload = load_le<std::uint32_t>(bytes.data() + 4);
  if (payload < kFixed || payload > bytes.size() - kHeader - 4) return false;
  const auto covered = bytes.first(kHeader + payload);
  if (crc32c(covered) != load_le<std::uint32_t>(bytes.data() + kHeader + payload)) return false;
  const std::byte* at = bytes.data() + kHeader;
  std::byte id[32];
  put_plan_id(id, plan_id);
  if (!std::equal(id, id + 32, at)) return false;
  out.begin = load_le<std::uint64_t>(at + 32);
  out.end = load_le<std::uint64_t>(at + 40);
  out.overflows = load_le<std::uint64_t>(at + 48);
  const auto count = load_le<std::uint64_t>(at + 56);
  if (count > (payload - kFixed) / kPerSlot || out.begin >= out.end) return false;
  const std::size_t lengths = payload - kFixed - count * kPerSlot;
  if (lengths % kPerChunk != 0) return false;
  at += kFixed;
  out.digests.clear();
  for (std::uint64_t i = 0; i < count; ++i, at += kPerSlot) {
    out.digests.push_back({load_le<std::uint64_t>(at),
                           {load_le<std::uint64_t>(at + 8), load_le<std::uint64_t>(at + 16)}});
  }
  out.lengths.clear();
  for (std::size_t i = 0; i < lengths / kPerChunk; ++i, at += kPerChunk)
    out.lengths.push_back(load_le<std::uint32_t>(at));
  bytes = bytes.subspan(kHeader + payload + 4);
  return true;
}

// Weighted interval scheduling: the disjoint records that cover most bytes, ascending.
std::vector<JournalRecord> select_disjoint(std::vector<JournalRecord> records) {
  std::ranges::stable_sort(records, {}, &JournalRecord::end);
  const std::size_t n = records.size();
  std::vector<std::uint64_t> best{0};
  std::vector<std::size_t> before(n);
  for (std::size_t i = 0; i < n; ++i) {
    const auto end = records.begin() + static_cast<std::ptrdiff_t>(i);
    const auto fit = std::upper_bound(
        records.begin(), end, records[i].begin,
        [](std::uint64_t begin, const JournalRecord& record) { return begin < record.end; });
    before[i] = static_cast<std::size_t>(fit - records.begin());
    best.push_back(std::max(best[i], best[before[i]] + records[i].end - records[i].begin));
  }
  std::vector<JournalRecord> out;
  for (std::size_t i = n; i > 0;) {
    if (best[i] == best[i - 1]) {
      --i;
      continue;
    }
    out.push_back(std::move(records[i - 1]));
    i = before[i - 1];
  }
  std::ranges::reverse(out);
  return out;
}

// Claims the next free attempt number; two copies of one worker get two journals.
std::string claim_attempt(const std::string& staging, std::uint32_t worker, std::uint32_t workers) {
  for (int attempt = 0;; ++attempt) {
    std::string path =
        join_path(staging, fmt::format("journal.{}-{}.{:04}", worker, workers, attempt));
    const sys::Descriptor made(
        sys::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (made.get() >= 0) return path;
    if (errno != EEXIST) throw sys::failure("create the journal", path, errno);
  }
}

}  // namespace

JournalWriter::JournalWriter(const std::string& staging, std::string plan_id, std::uint32_t worker,
                             std::uint32_t workers)
    : file_(claim_attempt(staging, worker, workers)), plan_id_(std::move(plan_id)) {
  fsync_directory(staging);
}

void JournalWriter::append(const JournalRecord& record) {
  const std::vector<std::byte> bytes = encode_record(record, plan_id_);
  file_.write_at(size_bytes_, bytes);
  size_bytes_ += bytes.size();
  file_.sync_data();
}

JournalState read_journals(const std::string& staging, const std::string& plan_id,
                           std::uint64_t slots) {
  std::vector<JournalRecord> records;
  std::set<std::string> workers;
  for (const std::string& name : list_directory(staging)) {
    if (!name.starts_with("journal.")) continue;
    const std::string text = read_file(join_path(staging, name), kMaxJournal);
    std::span<const std::byte> rest = as_bytes(text);
    JournalRecord record;
    while (decode_record(rest, plan_id, record)) {
      records.push_back(record);
      workers.insert(name.substr(0, name.rfind('.')));  // one may have begun several times
    }
  }
  JournalState state;
  state.records = records.size();
  state.workers = static_cast<std::uint32_t>(workers.size());
  state.done = select_disjoint(std::move(records));
  state.sums.assign(slots, {});
  for (JournalRecord& record : state.done) {
    for (const SlotDigest& digest : record.digests) {
      if (digest.slot < slots) state.sums[digest.slot] += digest.sum;
    }
    record.digests = {};
    state.overflows += record.overflows;
  }
  return state;
}

}  // namespace hfshard
