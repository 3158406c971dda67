#include "data/token_cache.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <stop_token>

#include "base/file.h"
#include "base/output_file.h"
#include "data/shard.h"
#include "data/support.h"
#include "heed/runtime.h"
#include "support/error.h"

namespace heed::test {
namespace {

namespace fs = std::filesystem;

class TokenCache : public testing::Test {
 protected:
  TokenCache() {
    write_file_atomically(data_, "attention is all you need\nand some text\n");
    options_.cache = cache_;
  }

  std::vector<int64_t> ids() {
    const TokenShard shard = load_text(data_.native(), tokenizer_, options_);
    std::vector<int64_t> all(static_cast<size_t>(shard.tokens()));
    shard.copy(0, shard.tokens(), all.data());
    return all;
  }

  fs::path only_entry() const {
    const auto files = cached_files(cache_);
    EXPECT_EQ(files.size(), 1u);
    return files.at(0).path;
  }

  TemporaryFolder folder_;
  fs::path data_ = folder_ / "data.txt";
  fs::path cache_ = folder_ / "cache";
  Tokenizer tokenizer_ = word_tokenizer({"attention", "is", "all", "you", "need", "and", "some"});
  DataOptions options_;
};

TEST_F(TokenCache, EveryFlippedBitIsNoticedAndTheEntryRebuilt) {
  const std::vector<int64_t> right = ids();
  const fs::path entry = only_entry();
  const std::string whole = read_file(entry);
  for (size_t i = 0; i < whole.size(); ++i) {
    std::string damaged = whole;
    damaged[i] = static_cast<char>(damaged[i] ^ (1 << (i % 8)));
    write_file_atomically(entry, damaged);
    testing::internal::CaptureStderr();
    EXPECT_EQ(ids(), right) << "byte " << i;
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_NE(said.find(entry.native()), std::string::npos) << said;
    ASSERT_EQ(read_file(entry), whole) << "rebuilt";
  }
}

TEST_F(TokenCache, ATruncatedEntryIsRebuilt) {
  const std::vector<int64_t> right = ids();
  const fs::path entry = only_entry();
  for (const off_t length : {off_t{0}, off_t{10}, off_t{47}, off_t{60}}) {
    ASSERT_EQ(truncate(entry.c_str(), length), 0);
    EXPECT_EQ(ids(), right);
  }
}

TEST_F(TokenCache, WorksWithoutAWritableFolder) {
  write_file_atomically(folder_ / "file", "");
  options_.cache = folder_ / "file" / "below";  // cannot be a folder, even for root
  const std::vector<int64_t> without = ids();
  options_.cache = cache_;
  EXPECT_EQ(without, ids());
  for (const auto& entry : fs::directory_iterator(fs::temp_directory_path())) {
    const std::string name = entry.path().filename();
    struct stat info {};
    ASSERT_FALSE(name.starts_with("heed-tokens-") && stat(entry.path().c_str(), &info) == 0 &&
                 info.st_ctime > time(nullptr) - 2 && info.st_uid == getuid() &&
                 fs::is_empty(entry))
        << "left behind: " << entry.path();
  }
}

TEST_F(TokenCache, RemovesTemporariesOfKilledRunsOnly) {
  ids();
  const fs::path stale = cache_ / "0123456789abcdef.tokens.tmp.00112233aabbccdd";
  const fs::path old_style = cache_ / "0123456789abcdef.tokens.tmp.4711.0";
  const fs::path foreign = cache_ / "notes.tmp.txt";
  for (const fs::path& path : {stale, old_style, foreign}) {
    std::ofstream(path) << "x";
    fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::hours(1));
  }
  AtomicFile in_work(cache_ / "00000000000000ff.tokens");
  for (const auto& entry : fs::directory_iterator(cache_)) {
    if (is_temporary_file(entry.path())) {
      fs::last_write_time(entry.path(), fs::file_time_type::clock::now() - std::chrono::hours(1));
    }
  }
  ids();
  EXPECT_FALSE(fs::exists(stale));
  EXPECT_FALSE(fs::exists(old_style));
  EXPECT_TRUE(fs::exists(foreign));
  in_work.write("still here");
  EXPECT_NO_THROW(in_work.commit());
}

TEST_F(TokenCache, TheLongestUnusedEntriesGoFirst) {
  fs::create_directories(cache_);
  for (int i = 0; i < 4; ++i) {
    const fs::path path = cache_ / fmt::format("000000000000000{}.tokens", i);
    std::ofstream(path) << std::string(1000, 'x');
    fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::hours(10 - i));
  }
  std::ofstream(cache_ / "README") << "not ours";
  EXPECT_EQ(shrink_cache(cache_, 2500), 2000u);
  EXPECT_FALSE(fs::exists(cache_ / "0000000000000000.tokens"));
  EXPECT_FALSE(fs::exists(cache_ / "0000000000000001.tokens"));
  EXPECT_TRUE(fs::exists(cache_ / "0000000000000002.tokens"));
  EXPECT_EQ(shrink_cache(cache_, 0, "0000000000000002"), 1000u);
  EXPECT_TRUE(fs::exists(cache_ / "0000000000000002.tokens"));
  EXPECT_TRUE(fs::exists(cache_ / "README"));
}

TEST_F(TokenCache, TheLimitIsReadFromTheEnvironment) {
  const auto limit = [](const char* text) {
    setenv("HEED_CACHE_LIMIT", text, 1);
    const uint64_t bytes = cache_limit();
    unsetenv("HEED_CACHE_LIMIT");
    return bytes;
  };
  EXPECT_EQ(cache_limit(), uint64_t{20} << 30);
  EXPECT_EQ(limit("1000"), 1000u);
  EXPECT_EQ(limit("500M"), uint64_t{500} << 20);
  EXPECT_EQ(limit("2T"), uint64_t{2} << 40);
  for (const char* bad : {"x", "5X", "5MM", "-1", "99999999999999999999", "17179869184G"}) {
    EXPECT_ERROR(limit(bad),
                 "' is not a size; expected a number of bytes with an optional K, M, G or T")
        << bad;
    unsetenv("HEED_CACHE_LIMIT");
  }
}

TEST_F(TokenCache, WhatIsNoRegularFileIsReplacedAndNotFollowed) {
  const std::vector<int64_t> right = ids();
  const fs::path entry = only_entry();
  const std::string whole = read_file(entry);
  const fs::path own = folder_ / "own";
  const std::pair<const char*, std::function<void()>> kinds[] = {
      {"FIFO", [&] { ASSERT_EQ(mkfifo(entry.c_str(), 0600), 0); }},
      {"link to a file", [&] { fs::create_symlink(own, entry); }},
      {"link to a device", [&] { fs::create_symlink("/dev/zero", entry); }},
      {"link to nothing", [&] { fs::create_symlink(folder_ / "none", entry); }},
      {"empty folder", [&] { fs::create_directory(entry); }}};
  for (const auto& [kind, make] : kinds) {
    write_file_atomically(own, "the user's own");
    fs::remove(entry);
    make();
    testing::internal::CaptureStderr();
    EXPECT_EQ(ids(), right) << kind;
    EXPECT_NE(testing::internal::GetCapturedStderr().find("is not a regular file"),
              std::string::npos)
        << kind;
    EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(entry))) << kind;
    EXPECT_EQ(read_file(entry), whole) << kind;
    EXPECT_EQ(read_file(own), "the user's own") << kind;
    EXPECT_FALSE(fs::exists(folder_ / "none")) << kind;
  }
}

TEST_F(TokenCache, ACacheThatCannotTakeTheFilesIsDoneWithout) {
  const std::vector<int64_t> right = ids();
  const fs::path entry = only_entry();
  fs::remove(entry);
  fs::create_directories(entry / "somebody's");  // writing fails, as on a full disk
  testing::internal::CaptureStderr();
  EXPECT_EQ(ids(), right);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("a temporary folder is used instead of the cache"), std::string::npos)
      << said;
  EXPECT_TRUE(fs::is_directory(entry / "somebody's"));
}

TEST_F(TokenCache, ARequestToStopIsNoFaultOfTheCache) {
  std::stop_source stop;
  stop.request_stop();
  const StopScope scope(stop.get_token());
  testing::internal::CaptureStderr();
  EXPECT_THROW(ids(), Stopped);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST_F(TokenCache, DataThatCannotBeReadIsNoFaultOfTheCache) {
  write_file_atomically(data_, "not UTF-8: \xff\n");
  testing::internal::CaptureStderr();
  EXPECT_ERROR(ids(), "is not UTF-8");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace heed::test
