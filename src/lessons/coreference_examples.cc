#include "lessons/coreference_examples.h"

#include <algorithm>
#include <set>

#include "lessons/example_random.h"

namespace heed {
namespace {

constexpr uint64_t kPairSeed = 0x48656564;

/// One pair of nouns in five, and always the tutorial's. The same for every seed, so that what one
/// run learned can be evaluated on another's sentences.
bool is_held_out(int animal, int place) {
  if (animal == 0 && place == 0) {
    return true;
  }
  return philox(kPairSeed, static_cast<uint64_t>(animal), static_cast<uint64_t>(place))[0] % 5 == 0;
}

bool has_other_animal(Distractor kind) {
  return kind != Distractor::none && kind != Distractor::place_inside;
}
bool has_other_place(Distractor kind) {
  return kind != Distractor::none && kind != Distractor::animal_inside;
}

/// No animal and place of the sentence form a pair that is held out.
bool fit_for_training(const CoreferencePlan& plan) {
  const bool animal = has_other_animal(plan.distractor);
  const bool place = has_other_place(plan.distractor);
  return !is_held_out(plan.animal, plan.place) &&
         !(animal && is_held_out(plan.other_animal, plan.place)) &&
         !(place && is_held_out(plan.animal, plan.other_place)) &&
         !(animal && place && is_held_out(plan.other_animal, plan.other_place));
}

void draw_nouns(CoreferencePlan& plan, Random& random, bool held_out) {
  const auto noun = [&] { return static_cast<int>(random.below(kNouns)); };
  const auto other_than = [&](int taken) {
    return (taken + 1 + static_cast<int>(random.below(kNouns - 1))) % kNouns;
  };
  do {
    plan.animal = noun();
    plan.place = noun();
    plan.other_animal = other_than(plan.animal);
    plan.other_place = other_than(plan.place);
  } while (held_out ? !is_held_out(plan.animal, plan.place) : !fit_for_training(plan));
}

CoreferencePlan draw_plan(const SyntheticOptions& options, uint64_t index) {
  Random random = example_random(options, SyntheticStream::coreference, index);
  const auto below = [&](int bound) {
    return static_cast<int>(random.below(static_cast<uint64_t>(bound)));
  };
  CoreferencePlan plan;
  const int place_of_others = below(8);  // half of the sentences have none
  plan.distractor =
      place_of_others < 4 ? Distractor::none : static_cast<Distractor>(place_of_others - 3);
  draw_nouns(plan, random, options.held_out);
  plan.verb = below(kVerbs);
  plan.living = below(2) == 1;
  plan.adjective = below(kAdjectives);
  plan.degree = below(kDegrees);
  plan.frame = below(kFrames);
  plan.time = below(2 * kTimes);
  plan.determiner = below(2) == 1;
  for (int& modifier : plan.modifiers) {
    modifier = below(4 * kModifiers);
  }
  return plan;
}

CoreferenceExample render(const CoreferencePlan& plan, Language language) {
  return language == Language::korean ? korean_coreference(plan) : english_coreference(plan);
}

/// Calls fn with plans that show every form of every word.
template <class Fn>
void for_every_form(const Fn& fn) {
  for (int form = 0; form < kFrames * 5; ++form) {
    for (int i = 0; i < kNouns; ++i) {
      CoreferencePlan plan;
      plan.frame = form / 5;
      plan.distractor = static_cast<Distractor>(form % 5);
      plan.animal = plan.other_place = i;
      plan.place = plan.other_animal = kNouns - 1 - i;
      plan.verb = i % kVerbs;
      plan.living = i % 2 == 0;
      plan.adjective = i / 2 % kAdjectives;
      plan.degree = i % kDegrees;
      plan.time = i % (2 * kTimes);
      plan.determiner = i % 4 < 2;
      plan.modifiers.fill(i % (2 * kModifiers));
      fn(plan);
    }
  }
}

}  // namespace

std::string CoreferenceExample::text() const {
  std::string joined;
  for (const std::string& word : words) {
    joined += joined.empty() ? word : " " + word;
  }
  return joined;
}

void CoreferenceSentence::add(std::string_view words) {
  while (!words.empty()) {
    const size_t end = std::min(words.find(' '), words.size());
    example_.words.emplace_back(words.substr(0, end));
    words.remove_prefix(std::min(end + 1, words.size()));
  }
}

void CoreferenceSentence::noun(std::string shown, Role role) {
  if (role == Role::animal) {
    animal_ = next();
  } else if (role == Role::place) {
    place_ = next();
  }
  example_.candidates.push_back(next());
  example_.words.push_back(std::move(shown));
}

void CoreferenceSentence::query(std::string_view word) {
  example_.query = next();
  add(word);
}

void CoreferenceSentence::evidence(std::string_view word) {
  example_.evidence = next();
  add(word);
}

CoreferenceExample CoreferenceSentence::finish(
    bool living, std::pair<std::string_view, std::string_view> answers) && {
  example_.referent = living ? animal_ : place_;
  example_.answer = living ? answers.first : answers.second;
  return std::move(example_);
}

CoreferenceExample coreference_example(const SyntheticOptions& options, uint64_t index) {
  return render(draw_plan(options, index), options.language);
}

std::vector<CoreferenceExample> coreference_examples(const SyntheticOptions& options,
                                                     int64_t count) {
  std::vector<CoreferenceExample> examples;
  for (int64_t index = 0; index < count; ++index) {
    examples.push_back(coreference_example(options, static_cast<uint64_t>(index)));
  }
  return examples;
}

std::vector<CoreferenceExample> coreference_tutorial(Language language) {
  CoreferencePlan tired;
  CoreferencePlan wide;
  wide.living = false;
  return {render(tired, language), render(wide, language)};
}

std::vector<std::string> coreference_words(Language language) {
  std::set<std::string> words;
  for_every_form([&](const CoreferencePlan& plan) {
    CoreferenceExample example = render(plan, language);
    words.insert(example.words.begin(), example.words.end());
  });
  return {words.begin(), words.end()};
}

std::vector<std::string> coreference_answers(Language language) {
  std::vector<std::string> answers =
      language == Language::korean ? korean_coreference_answers() : english_coreference_answers();
  std::sort(answers.begin(), answers.end());
  return answers;
}

}  // namespace heed
