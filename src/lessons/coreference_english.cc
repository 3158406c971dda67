#include "lessons/coreference_examples.h"

namespace heed {
namespace {

using Words = std::array<std::string_view, kNouns>;
using Role = CoreferenceSentence::Role;

// The first of each list are the tutorial's.
constexpr Words kAnimals = {"animal", "puppy",  "cat",      "horse",   "rabbit",   "cow",
                            "fox",    "sheep",  "turtle",   "duck",    "goat",     "bear",
                            "wolf",   "deer",   "pig",      "monkey",  "elephant", "tiger",
                            "lion",   "donkey", "squirrel", "raccoon", "camel",    "hedgehog"};
constexpr Words kPlaces = {"street", "road",  "river",  "bridge", "field",  "lake",
                           "hill",   "park",  "garden", "yard",   "valley", "forest",
                           "tunnel", "trail", "stream", "canyon", "square", "alley",
                           "market", "cave",  "swamp",  "meadow", "beach",  "playground"};
constexpr std::array<std::string_view, kAdjectives> kLiving = {
    "tired", "hungry", "sleepy", "scared",  "thirsty", "lazy",
    "sick",  "weak",   "shy",    "nervous", "angry",   "exhausted"};
constexpr std::array<std::string_view, kAdjectives> kSpatial = {
    "wide",  "long", "dark",     "muddy", "dangerous", "narrow",
    "steep", "icy",  "slippery", "rough", "crowded",   "flooded"};
struct Verb {
  std::string_view base;
  std::string_view participle;
};
constexpr std::array<Verb, kVerbs> kActions = {{{"cross", "crossed"},
                                                {"enter", "entered"},
                                                {"visit", "visited"},
                                                {"leave", "left"},
                                                {"explore", "explored"},
                                                {"reach", "reached"},
                                                {"pass", "passed"},
                                                {"approach", "approached"}}};
constexpr std::array<std::string_view, kModifiers> kModifier = {"small", "big", "quiet", "strange"};
constexpr std::array<std::string_view, kDegrees> kDegree = {"too", "so", "very"};
constexpr std::array<std::string_view, kTimes> kTime = {"yesterday", "today", "tonight"};

class EnglishSentence {
 public:
  explicit EnglishSentence(const CoreferencePlan& plan) : plan_(plan) {}

  CoreferenceExample render() {
    const bool reason_first = plan_.frame == 1;
    if (plan_.time < kTimes) {
      sentence_.add(kTime[plan_.time]);
    }
    if (plan_.distractor == Distractor::before && !reason_first) {
      sentence_.add("while");
      others();
      sentence_.add(",");
    }
    if (reason_first) {
      reason("because");
      sentence_.add(",");
    }
    plan_.frame == 2 ? passive() : active();
    if (!reason_first) {
      reason(plan_.frame == 3 ? "since" : "because");
    }
    if (plan_.distractor == Distractor::after ||
        (plan_.distractor == Distractor::before && reason_first)) {
      sentence_.add(", while");
      others();
    }
    sentence_.add(".");
    CoreferenceExample example =
        std::move(sentence_).finish(plan_.living, {kAnimals[plan_.animal], kPlaces[plan_.place]});
    char& first = example.words.front().front();
    first = static_cast<char>(first - 'a' + 'A');
    return example;
  }

 private:
  void noun_phrase(std::string_view noun, Role role, int modifier) {
    sentence_.add("the");
    if (plan_.modifiers[modifier] < kModifiers) {
      sentence_.add(kModifier[plan_.modifiers[modifier]]);
    }
    sentence_.noun(std::string(noun), role);
  }

  void animal() {
    noun_phrase(kAnimals[plan_.animal], Role::animal, 0);
    if (plan_.distractor == Distractor::place_inside) {
      sentence_.add("from");
      noun_phrase(kPlaces[plan_.other_place], Role::other, 3);
    } else if (plan_.distractor == Distractor::animal_inside) {
      sentence_.add("behind");
      noun_phrase(kAnimals[plan_.other_animal], Role::other, 2);
    }
  }

  void active() {
    animal();
    sentence_.add("didn't");
    sentence_.add(kActions[plan_.verb].base);
    noun_phrase(kPlaces[plan_.place], Role::place, 1);
  }

  void passive() {
    noun_phrase(kPlaces[plan_.place], Role::place, 1);
    sentence_.add("wasn't");
    sentence_.add(kActions[plan_.verb].participle);
    sentence_.add("by");
    animal();
  }

  void reason(std::string_view word) {
    sentence_.add(word);
    sentence_.query("it");
    sentence_.add("was");
    sentence_.add(kDegree[plan_.degree]);
    sentence_.evidence((plan_.living ? kLiving : kSpatial)[plan_.adjective]);
  }

  void others() {
    noun_phrase(kAnimals[plan_.other_animal], Role::other, 2);
    sentence_.add("slept near");
    noun_phrase(kPlaces[plan_.other_place], Role::other, 3);
  }

  const CoreferencePlan& plan_;
  CoreferenceSentence sentence_;
};

}  // namespace

CoreferenceExample english_coreference(const CoreferencePlan& plan) {
  return EnglishSentence(plan).render();
}

std::vector<std::string> english_coreference_answers() {
  std::vector<std::string> nouns(kAnimals.begin(), kAnimals.end());
  nouns.insert(nouns.end(), kPlaces.begin(), kPlaces.end());
  return nouns;
}

}  // namespace heed
