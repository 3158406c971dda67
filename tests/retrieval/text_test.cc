#include <gtest/gtest.h>

#include <cstdlib>

#include "heed/runtime.h"
#include "retrieval/chunks.h"
#include "retrieval/documents.h"
#include "retrieval/sentences.h"
#include "retrieval/snippet.h"
#include "retrieval/support.h"
#include "retrieval/terms.h"
#include "support/emulated.h"
#include "support/error.h"

namespace heed {
namespace {

std::vector<std::string> sentences(const std::string& text) {
  std::vector<std::string> result;
  for (const TextSpan span : split_sentences(text)) {
    result.push_back(
        text.substr(static_cast<size_t>(span.begin), static_cast<size_t>(span.end - span.begin)));
  }
  return result;
}

using Texts = std::vector<std::string>;

TEST(Sentences, English) {
  EXPECT_EQ(sentences("Dr. Smith paid $3.50. He left! Did he? Yes."),
            (Texts{"Dr. Smith paid $3.50.", "He left!", "Did he?", "Yes."}));
  EXPECT_EQ(sentences("It rained, e.g. in the U.S. and elsewhere. Then it stopped."),
            (Texts{"It rained, e.g. in the U.S. and elsewhere.", "Then it stopped."}));
  EXPECT_EQ(sentences("She said \"Stop.\" Then J. R. Tolkien wrote."),
            (Texts{"She said \"Stop.\"", "Then J. R. Tolkien wrote."}));
  EXPECT_EQ(sentences("see heed.h and a.b.c now. Next"),
            (Texts{"see heed.h and a.b.c now.", "Next"}));
  EXPECT_EQ(sentences("Wait... what? no. 5 of them came."),
            (Texts{"Wait... what?", "no. 5 of them came."}));
}

TEST(Sentences, CharactersStayWhole) {
  EXPECT_EQ(sentences("voilà"), (Texts{"voilà"}));
  EXPECT_EQ(sentences("젠\n\n젠"), (Texts{"젠", "젠"}));  // EC A0 A0
}

TEST(Sentences, RunsOfPeriodsAreReadOnce) {
  constexpr size_t kMany = 1'000'000;
  for (const char* part : {".\u3000", ". ", ".", ".)", "a.", "u.s. ", "\n ", "\n\n", ".\u3000a"}) {
    std::string text;
    for (size_t i = 0; i < kMany; ++i) {
      text += part;
    }
    EXPECT_LE(split_sentences(text).size(), kMany) << part;
  }
}

TEST(Sentences, LinesAndParagraphs) {
  EXPECT_EQ(sentences("a title\n\nfirst line\nsecond line\n\nend"),
            (Texts{"a title", "first line\nsecond line", "end"}));
  EXPECT_EQ(sentences("- one\n- two"), (Texts{"- one", "- two"}));
  EXPECT_TRUE(sentences(" \n\n ").empty());
}

TEST(Sentences, Korean) {
  EXPECT_EQ(sentences("역사를 배웠다. 재미있어요! 정말 그럴까? 네."),
            (Texts{"역사를 배웠다.", "재미있어요!", "정말 그럴까?", "네."}));
  EXPECT_EQ(sentences("갔다.그리고 왔다"), (Texts{"갔다.", "그리고 왔다"}));
  EXPECT_EQ(sentences("어제 갔습니다\n오늘 왔어요\n내일의 일"),
            (Texts{"어제 갔습니다", "오늘 왔어요", "내일의 일"}));
  EXPECT_EQ(sentences("“가자.” 그가 말했다."), (Texts{"“가자.”", "그가 말했다."}));
  EXPECT_EQ(sentences("これは本です。それはペンです。"),
            (Texts{"これは本です。", "それはペンです。"}));
}

TEST(Terms, WordsAndBigrams) {
  EXPECT_EQ(term_text("The Café, GPT-2가 좋다"), "the cafe gpt 2 가 좋다");
  EXPECT_EQ(term_text("역사를 배운다"), "역사를 역사 사를 배운다 배운 운다");
  EXPECT_EQ(term_text("역사"), "역사");
  EXPECT_EQ(term_text("東京都"), "東京 京都");
  EXPECT_EQ(term_text("…!?"), "");
  const std::string text = "in 역사를";
  const std::vector<Term> terms = terms_of(text);
  ASSERT_EQ(terms.size(), 4u);
  EXPECT_EQ(terms[2].text, "역사");
  EXPECT_EQ(text.substr(static_cast<size_t>(terms[2].span.begin), 6), "역사");
}

TEST(Terms, DecomposedHangulIsComposed) {
  EXPECT_EQ(compose_hangul("\u1112\u1161\u11ab\u1100\u1173\u11af"), "한글");
  EXPECT_EQ(compose_hangul("cafe\u0301"), "cafe\u0301");
}

TEST(Snippet, MarksWhatMatches) {
  const std::string text = "우리는 역사를 배운다. History is long.";
  const std::vector<TextSpan> matches = find_matches(text, {"역사", "history"});
  ASSERT_EQ(matches.size(), 2u);
  EXPECT_EQ(text.substr(static_cast<size_t>(matches[0].begin),
                        static_cast<size_t>(matches[0].end - matches[0].begin)),
            "역사");
  EXPECT_EQ(snippet_of(text, matches), (TextSpan{0, static_cast<int64_t>(text.size())}));
  std::string lengthy;
  for (int i = 0; i < 200; ++i) {
    lengthy += "filler words 가나다 ";
  }
  const auto place = static_cast<int64_t>(lengthy.size());
  lengthy += "the needle is here. " + lengthy;
  const TextSpan snippet = snippet_of(lengthy, find_matches(lengthy, {"needle"}));
  EXPECT_LE(snippet.begin, place + 4);
  EXPECT_GE(snippet.end, place + 10);
  EXPECT_LE(snippet.end - snippet.begin, 400);
}

Section section_of(const std::string& text) { return {"", text, ""}; }

TEST(Chunks, WholeSentencesWithOverlapWithinTheLimit) {
  const test::TemporaryFolder folder;
  const Tokenizer tokenizer = Tokenizer::load(test::make_encoder(folder / "encoder"));
  std::string text;
  for (int i = 0; i < 60; ++i) {
    text += "The city of " + std::to_string(i) + " is long and rich. ";
  }
  const ChunkOptions options{.tokens = 60, .overlap = 20};
  const std::vector<Chunk> chunks = chunk_section(section_of(text), tokenizer, options);
  ASSERT_GT(chunks.size(), 3u);
  for (size_t i = 0; i < chunks.size(); ++i) {
    EXPECT_LE(tokenizer.encode_ids(chunks[i].text, false).size(), 60u);
    EXPECT_EQ(chunks[i].text,
              text.substr(static_cast<size_t>(chunks[i].span.begin), chunks[i].text.size()));
    EXPECT_EQ(chunks[i].text.back(), '.');
    if (i > 0) {
      EXPECT_LT(chunks[i].span.begin, chunks[i - 1].span.end) << "no overlap";
      EXPECT_GT(chunks[i].span.begin, chunks[i - 1].span.begin);
    }
  }
  EXPECT_EQ(chunks.front().span.begin, 0);
  EXPECT_EQ(chunks.back().span.end, static_cast<int64_t>(text.size()) - 1);
}

TEST(Chunks, LongSentencesAreCutAndNothingIsLost) {
  const test::TemporaryFolder folder;
  const Tokenizer tokenizer = Tokenizer::load(test::make_encoder(folder / "encoder"));
  std::string words, glued;
  for (int i = 0; i < 300; ++i) {
    words += "city ";
    glued += "역사";
  }
  for (const std::string& text : {words, glued}) {
    std::string joined;
    for (const Chunk& chunk :
         chunk_section(section_of(text), tokenizer, {.tokens = 32, .overlap = 0})) {
      EXPECT_LE(tokenizer.encode_ids(chunk.text, false).size(), 32u);
      joined += chunk.text;
    }
    std::erase(joined, ' ');
    std::string wanted = text;
    std::erase(wanted, ' ');
    EXPECT_EQ(joined, wanted);
  }
}

TEST(Chunks, TextOfNextToNoTokensIsCutByItsBytes) {
  const test::TemporaryFolder folder;
  const Tokenizer tokenizer = Tokenizer::load(test::make_encoder(folder / "encoder"));
  std::string silent, words;  // no token each, and one token each
  for (int i = 0; i < 300'000; ++i) {
    silent += "\x01\n\n";
  }
  for (int i = 0; i < 300; ++i) {
    words += std::string(7000, 'x') + "\n\n";
  }
  for (const std::string& text : {std::string(2'000'000, 'x'), silent, words}) {
    size_t bytes = 0;
    int64_t end = 0;
    for (const Chunk& chunk : chunk_section(section_of(text), tokenizer, {})) {
      EXPECT_LE(chunk.text.size(), size_t{256} << 10);
      EXPECT_LE(chunk.span.begin, end + 2) << "something is lost";
      end = chunk.span.end;
      bytes += chunk.text.size();
    }
    EXPECT_GE(end, static_cast<int64_t>(text.size()) - 2);
    EXPECT_LE(bytes, 2 * text.size());  // with what chunks repeat
  }
}

std::vector<Section> sections_of(const std::filesystem::path& path,
                                 std::vector<std::string>* complaints = nullptr) {
  std::vector<Section> result;
  read_document(
      path, {}, [&](Section section) { result.push_back(std::move(section)); },
      [&](const std::string& what) {
        if (complaints != nullptr) {
          complaints->push_back(what);
        }
      });
  return result;
}

TEST(Documents, Markdown) {
  const test::TemporaryFolder folder;
  test::write(folder / "a.md",
              "---\ntitle: x\n---\n# One\nfirst **bold** and [a link](http://x.y)\n\n## Two ##\n"
              "```\n# no heading\n```\n# Three\nlast `code`\n");
  const std::vector<Section> sections = sections_of(folder / "a.md");
  ASSERT_EQ(sections.size(), 3u);
  EXPECT_EQ(sections[0].title, "One");
  EXPECT_EQ(sections[0].text, "first bold and a link");
  EXPECT_EQ(sections[1].title, "One › Two");
  EXPECT_EQ(sections[1].text, "# no heading");
  EXPECT_EQ(sections[2].title, "Three");
  EXPECT_EQ(sections[2].text, "last code");
}

TEST(Documents, Html) {
  const test::TemporaryFolder folder;
  test::write(
      folder / "a.html",
      "<html><head><title>Page &amp; more</title><style>p{}</style></head><body>"
      "<script>var x = '<p>no</p>';</script><p>One &lt; two.</p><p>&#xC5ED;&#49324; <b>bold</b></p>"
      "<!-- no --><h2>Part</h2><ul><li>a<li>b</ul>5 < 6</body>");
  const std::vector<Section> sections = sections_of(folder / "a.html");
  ASSERT_EQ(sections.size(), 2u);
  EXPECT_EQ(sections[0].title, "Page & more");
  EXPECT_EQ(sections[0].text, "One < two.\n\n역사 bold");
  EXPECT_EQ(sections[1].title, "Page & more › Part");
  EXPECT_EQ(sections[1].text, "a\n\nb\n5 < 6");
}

TEST(Documents, MalformedHtmlDoesNoHarm) {
  const test::TemporaryFolder folder;
  for (const char* html : {"x<", "x<p", "x</", "x<!--", "x&#xffffffffff;", "x&", "x<script>y",
                           "x<title>", "x<h1>y<h2>z", "x<\xff>"}) {
    int count = 0;
    split_html(html, [&](const Section& section) {
      ++count;
      EXPECT_FALSE(section.text.empty());
    });
    EXPECT_GE(count, 1) << html;
  }
}

/// `count` times `part`.
std::string repeated(std::string_view part, size_t count) {
  std::string text;
  text.reserve(part.size() * count);
  for (size_t i = 0; i < count; ++i) {
    text += part;
  }
  return text;
}

/// Bytes of titles and texts of what `split` makes of a document.
template <class Split>
std::pair<size_t, size_t> sizes_of(const Split& split, const std::string& document) {
  std::pair<size_t, size_t> sizes;
  split(document, [&](const Section& section) {
    sizes.first += section.title.size();
    sizes.second += section.text.size();
  });
  return sizes;
}

TEST(Documents, EndlessMarkupIsReadOnce) {
  // In time that grows with the square of their size, a text of these would take hours.
  constexpr size_t kMany = 2'000'000;
  for (const char* part : {"<script>", "<svg>", "<style><iframe>", "<", "</", "<!--", "<a href=\"",
                           "<title>", "<h1>", "&", "&#", "<x ", "<p>", "</p", "<script></"}) {
    EXPECT_LE(sizes_of(split_html, repeated(part, kMany) + "x").second, 2 * kMany + 1) << part;
    EXPECT_LE(sizes_of(split_html, repeated(part, kMany) + "x</").second, 2 * kMany + 3) << part;
  }
  EXPECT_EQ(sizes_of(split_html, repeated("<script>", kMany) + "x").second, 1U);
  EXPECT_EQ(sizes_of(split_html, repeated("<script>", kMany) + "</script>x").second, 1U);
}

TEST(Documents, HostileMarkdownAndTablesAreReadOnce) {
  constexpr size_t kMany = 2'000'000;
  for (const char* part :
       {"[", "](", "]", "![", "*", "`", ">", "\"", "(", "# ", "```\n", "---\n"}) {
    EXPECT_LE(sizes_of(split_markdown, repeated(part, kMany)).second, 4 * kMany) << part;
  }
  EXPECT_EQ(sizes_of(split_markdown, repeated("[", kMany) + "x](y)").second, 1U);
  EXPECT_EQ(sizes_of(split_markdown, repeated("](", kMany) + "x)y").second, 1U);
  const test::TemporaryFolder folder;
  const auto refused = [&](const char* name, const std::string& content, const char* why) {
    test::write(folder / name, content);
    const std::string message =
        test::message_of([&] { sections_of(folder / name); }, ErrorKind::data);
    EXPECT_TRUE(test::message_has(message, why));
  };
  refused("commas.csv", repeated(",", kMany), "commas.csv:1: the row has 2000001 columns");
  refused("later.csv", "text\n" + repeated(",", kMany), "the row has more than 1048576 columns");
  refused("open.csv", "text\n\"" + repeated("x\n", kMany / 2), "a quoted field does not end");
  test::write(folder / "tabs.tsv", "one\n" + repeated("x\t", kMany) + "\ntwo\n");
  std::vector<std::string> complaints;
  EXPECT_EQ(sections_of(folder / "tabs.tsv", &complaints).size(), 2U);
  ASSERT_EQ(complaints.size(), 1U);
  EXPECT_NE(complaints[0].find("tabs.tsv:2: the row has 2000001 columns"), std::string::npos);
}

TEST(Documents, LongTitlesAreTruncated) {
  const std::string title = repeated("가", 200'000);
  const std::string html =
      "<title>" + title + "</title><h1>" + title + "</h1>x" + repeated("<h2>y</h2>z", 2000);
  const std::string markdown = "# " + title + "\nx\n" + repeated("## y\nz\n", 2000);
  constexpr size_t kMost = 2001 * 2 * 1100;
  EXPECT_LT(sizes_of(split_html, html).first, kMost);
  EXPECT_LT(sizes_of(split_markdown, markdown).first, kMost);
  EXPECT_EQ(short_title("abc"), "abc");
  EXPECT_EQ(short_title(title), repeated("가", 341) + "…");
}

TEST(Documents, Tables) {
  const test::TemporaryFolder folder;
  test::write(
      folder / "a.jsonl",
      "{\"title\":\"T\",\"text\":\"one\"}\nbroken\n\n{\"id\":3}\n{\"contents\":\"two\"}\n\xff\n");
  std::vector<std::string> complaints;
  std::vector<Section> sections = sections_of(folder / "a.jsonl", &complaints);
  ASSERT_EQ(sections.size(), 2u);
  EXPECT_EQ(sections[0].title, "T");
  EXPECT_EQ(sections[0].location, "row 1");
  EXPECT_EQ(sections[1].text, "two");
  EXPECT_EQ(sections[1].location, "row 5");
  ASSERT_EQ(complaints.size(), 3u);
  EXPECT_NE(complaints[0].find("a.jsonl:2"), std::string::npos) << complaints[0];
  EXPECT_NE(complaints[1].find("a.jsonl:4"), std::string::npos) << complaints[1];
  EXPECT_NE(complaints[2].find("UTF-8"), std::string::npos) << complaints[2];
  test::write(folder / "b.csv", "id,title,text\n1,T,\"one, \"\"two\"\"\"\n2,U,three\n");
  sections = sections_of(folder / "b.csv");
  ASSERT_EQ(sections.size(), 2u);
  EXPECT_EQ(sections[0].text, "one, \"two\"");
  EXPECT_EQ(sections[0].title, "T");
  test::write(folder / "c.tsv", "hello\t안녕\nworld\t세계\textra\n");
  sections = sections_of(folder / "c.tsv");
  ASSERT_EQ(sections.size(), 2u);
  EXPECT_EQ(sections[1].text, "world\n세계\nextra");
}

TEST(Documents, WhatCannotBeReadIsNamed) {
  const test::TemporaryFolder folder;
  const auto expect_refused = [&](const std::string& name, const std::string& part) {
    try {
      sections_of(folder / name);
      ADD_FAILURE() << name << " was read";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::data);
      EXPECT_NE(std::string(error.what()).find(name), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  };
  test::write(folder / "empty.txt", " \n");
  expect_refused("empty.txt", "empty");
  test::write(folder / "binary.txt", std::string("ab\0cd", 5));
  expect_refused("binary.txt", "binary");
  test::write(folder / "cp949.txt", "abc \xbf\xaa\xbb\xe7");
  expect_refused("cp949.txt", "CP949");
  test::write(folder / "empty.jsonl", "\n");
  expect_refused("empty.jsonl", "empty");
  test::write(folder / "large.txt", "x");
  std::filesystem::resize_file(folder / "large.txt", uint64_t{1} << 30);
  expect_refused("large.txt", "1024 MB");
  test::write(folder / "no.pdf", "no pdf");
  expect_refused("no.pdf", "pdftotext");
}

/// Puts a shell script in the place of pdftotext.
class FakePdfToText {
 public:
  explicit FakePdfToText(const std::string& script) : path_(std::getenv("PATH")) {
    test::write(folder_ / "pdftotext", "#!/bin/sh\n" + script + "\n");
    std::filesystem::permissions(folder_ / "pdftotext", std::filesystem::perms::owner_all);
    setenv("PATH", (folder_.path().native() + ":" + path_).c_str(), 1);
  }
  ~FakePdfToText() { setenv("PATH", path_.c_str(), 1); }
  FakePdfToText(const FakePdfToText&) = delete;
  FakePdfToText& operator=(const FakePdfToText&) = delete;

 private:
  test::TemporaryFolder folder_;
  std::string path_;
};

/// What is said of a PDF where `script` is pdftotext.
std::string said_of_pdf(const std::filesystem::path& pdf, const std::string& script,
                        double seconds) {
  const FakePdfToText fake(script);
  DocumentLimits limits;
  limits.max_bytes = 1 << 20;
  limits.pdf_seconds = seconds;
  return test::message_of(
      [&] {
        read_document(
            pdf, limits, [](const Section&) {}, [](const std::string&) {});
      },
      ErrorKind::data);
}

TEST(Documents, APdfThatNeverEndsIsLeftOut) {
  const test::TemporaryFolder folder;
  const std::filesystem::path pdf = folder / "a.pdf";
  test::write(pdf, "%PDF");
  const auto message = [&](const std::string& script, double seconds) {
    return said_of_pdf(pdf, script, seconds);
  };
  const std::string late = pdf.native() + ": pdftotext did not finish within 0.2 seconds";
  EXPECT_TRUE(test::message_has(message("exec sleep 1000", 0.2), late));
  EXPECT_TRUE(test::message_has(message("echo text; sleep 1000", 0.2), late));
  EXPECT_TRUE(test::message_has(message("exec >&-; sleep 1000", 0.2), late));
  EXPECT_TRUE(test::message_has(message("while sleep 0.01; do echo text; done", 0.2), late));
  EXPECT_TRUE(test::message_has(message("yes", 60), "has more than 1 MB of text"));
  EXPECT_TRUE(test::message_has(message("exit 1", 60), "pdftotext cannot read it"));
}

TEST(Documents, PdfsAreReadWithinLimitsOfTimeAndMemory) {
  HEED_SKIP_EMULATED("a limit of memory is the emulator's own");
  const test::TemporaryFolder folder;
  const std::filesystem::path pdf = folder / "a.pdf";
  test::write(pdf, "%PDF");
  // The limits are set once it runs: it waits for them.
  EXPECT_TRUE(test::message_has(
      said_of_pdf(pdf,
                  "until test \"$(ulimit -t) $(ulimit -v)\" = \"60 2097152\"; do sleep 0.01; "
                  "done; echo yes",
                  60),
      "no error"));
}

}  // namespace
}  // namespace heed
