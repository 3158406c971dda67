#pragma once

#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "heed/lessons.h"

namespace heed {

inline constexpr int kNouns = 24;  // animals, and as many places
inline constexpr int kVerbs = 8;
inline constexpr int kAdjectives = 12;  // for animals, and as many for places
inline constexpr int kModifiers = 4;
inline constexpr int kDegrees = 3;
inline constexpr int kTimes = 3;
inline constexpr int kFrames = 4;

/// Where other nouns stand around the main clause.
enum class Distractor { none, before, after, place_inside, animal_inside };

/// One sentence before it is put into words. Indices count in the lexicon of the language.
struct CoreferencePlan {
  int animal = 0;
  int place = 0;
  int other_animal = 1;
  int other_place = 1;
  int verb = 0;
  bool living = true;  ///< the adjective is one of living things
  int adjective = 0;
  int degree = 0;
  int frame = 0;      ///< order of the clauses
  int time = kTimes;  ///< kTimes: none
  bool determiner = true;
  Distractor distractor = Distractor::none;
  std::array<int, 4> modifiers = {kModifiers, kModifiers, kModifiers, kModifiers};
};

/// Collects the words of a sentence and where its nouns are.
class CoreferenceSentence {
 public:
  enum class Role { animal, place, other };

  void add(std::string_view words);  ///< separated by single spaces
  void noun(std::string shown, Role role);
  void query(std::string_view word);
  void evidence(std::string_view word);
  /// `answers` are the bare nouns of the animal and the place.
  CoreferenceExample finish(bool living, std::pair<std::string_view, std::string_view> answers) &&;

 private:
  int next() const { return static_cast<int>(example_.words.size()); }

  CoreferenceExample example_;
  int animal_ = 0;
  int place_ = 0;
};

CoreferenceExample english_coreference(const CoreferencePlan& plan);
CoreferenceExample korean_coreference(const CoreferencePlan& plan);
std::vector<std::string> english_coreference_answers();
std::vector<std::string> korean_coreference_answers();

}  // namespace heed
