#include <fmt/format.h>

#include <array>
#include <chrono>
#include <string_view>

#include "lessons/example_random.h"
#include "lessons/hangul.h"

namespace heed {
namespace {

constexpr std::array<std::string_view, 12> kMonths = {
    "January", "February", "March",     "April",   "May",      "June",
    "July",    "August",   "September", "October", "November", "December"};
constexpr std::array<std::string_view, 7> kDays = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                                   "Thursday", "Friday", "Saturday"};
constexpr std::array<std::string_view, 7> kKoreanDays = {"일요일", "월요일", "화요일", "수요일",
                                                         "목요일", "금요일", "토요일"};

struct Date {
  int year, month, day, weekday;
};

Date draw_date(Random& random) {
  using namespace std::chrono;
  const sys_days first = year{1950} / January / 1;
  const sys_days end = year{2050} / January / 1;
  const auto span = static_cast<uint64_t>((end - first).count());
  const sys_days day = first + days{static_cast<int>(random.below(span))};
  const year_month_day date{day};
  return {static_cast<int>(date.year()), static_cast<int>(static_cast<unsigned>(date.month())),
          static_cast<int>(static_cast<unsigned>(date.day())),
          static_cast<int>(weekday{day}.c_encoding())};
}

std::string_view ordinal_ending(int day) {
  if (day / 10 == 1) {
    return "th";
  }
  return day % 10 == 1 ? "st" : day % 10 == 2 ? "nd" : day % 10 == 3 ? "rd" : "th";
}

std::string english_date(const Date& date, uint64_t format) {
  const auto [year, month, day, weekday] = date;
  const std::string_view name = kMonths[month - 1];
  const std::string_view short_name = name.substr(0, 3);
  switch (format) {
    case 0:
      return fmt::format("{} {}, {}", name, day, year);
    case 1:
      return fmt::format("{} {} {}", day, name, year);
    case 2:
      return fmt::format("{} {}, {}", short_name, day, year);
    case 3:
      return fmt::format("{} {} {}", day, short_name, year);
    case 4:
      return fmt::format("{} {}{}, {}", name, day, ordinal_ending(day), year);
    case 5:
      return fmt::format("the {}{} of {} {}", day, ordinal_ending(day), name, year);
    case 6:
      return fmt::format("{}, {} {}, {}", kDays[weekday], name, day, year);
    case 7:
      return fmt::format("{:02}/{:02}/{}", month, day, year);
    case 8:
      return fmt::format("{}.{}.{}", day, month, year);
    case 9:
      return fmt::format("{}/{}/{}", year, month, day);
    case 10:
      return fmt::format("{:02}-{}-{}", day, short_name, year);
    default:
      return fmt::format("{} {} {} {}", kDays[weekday].substr(0, 3), day, short_name, year);
  }
}

/// 유월 and 시월 lose a sound.
std::string korean_month(int month) {
  return month == 6 ? "유" : month == 10 ? "시" : korean_number(month);
}

std::string korean_date(const Date& date, uint64_t format) {
  const auto [year, month, day, weekday] = date;
  switch (format) {
    case 0:
      return fmt::format("{}년 {}월 {}일", year, month, day);
    case 1:
      return fmt::format("{}년 {}월 {}일 {}", year, month, day, kKoreanDays[weekday]);
    case 2:
      return fmt::format("{}년 {:02}월 {:02}일", year, month, day);
    case 3:
      return fmt::format("{}. {}. {}.", year, month, day);
    case 4:
      return fmt::format("{}년{}월{}일", year, month, day);
    case 5:
      return fmt::format("{}년 {}월 {}일", korean_number(year), korean_month(month),
                         korean_number(day));
    case 6:
      return fmt::format("{}월 {}일, {}년", month, day, year);
    case 7:
      return fmt::format("{:02}년 {}월 {}일", year % 100, month, day);
    case 8:
      return fmt::format("{}/{:02}/{:02}", year, month, day);
    case 9:
      return fmt::format("{}.{:02}.{:02}", year, month, day);
    case 10:
      return fmt::format("서기 {}년 {}월 {}일", year, month, day);
    default:
      return fmt::format("{}-{}-{} ({})", year, month, day, kKoreanDays[weekday].substr(0, 3));
  }
}

}  // namespace

TextPair date_example(const SyntheticOptions& options, uint64_t index) {
  Random random = example_random(options, SyntheticStream::dates, index);
  const Date date = draw_date(random);
  const uint64_t format = random.below(12);
  return {
      options.language == Language::korean ? korean_date(date, format) : english_date(date, format),
      fmt::format("{:04}-{:02}-{:02}", date.year, date.month, date.day)};
}

}  // namespace heed
