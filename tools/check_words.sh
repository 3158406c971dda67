#!/usr/bin/env bash
# Finds words that the project has retired in favour of the field's own terms: in code, comments,
# messages, help texts, documents and Korean texts. Prints file, line, the word and its replacement;
# exits with 1 if there is any.
#
#   tools/check_words.sh            every file that git tracks
#   tools/check_words.sh FILE…      these files only
#
# One rule per line: a Perl regular expression that is matched against each line in lower case, " => ",
# and what to write instead. A word that is ordinary English elsewhere is retired only in the phrases that carry the old meaning.
set -euo pipefail
cd "$(dirname "$0")/.."

rules='
\bway back\b => backward pass
\bforetell => predict
\bjudg(e|es|ed|ing|e_\w+)\b => evaluate, metric
\brooms\b|\b(its|each|one|a|the|every|whose) room\b|\brooms? for \d+ positions => module; capacity
\bturned\b(?! (on|off|out|into|up)\b) => transposed, rotated, reversed
\bhead[_ ]widths? => head_dim
(?<!standard )\bdeviations?\b => standard deviation (stddev)
\bextents?\b => dimension, size
\bteaching sets?\b => synthetic dataset
\blive line\b => progress line, status line
\blasting[ _]options => options that must match on resume
\bleads\(\) => is_root()
(\bclass |\bstruct |optional<)alone\b => SingleThreadedScope
\bfetch_ahead\b|\bbase/ahead => prefetch
\bgemm_finish => epilogue
\bmut(ed|ing|es?)\b(?! state) => ablated (head ablation)
\brun_later_again\b => activation checkpointing
\bcut file\b => truncated file
\bforced_end\b => forced_eos_token_id
\bstart_share\b => all-gather
\b(word head|head over words)\b => LM head
\bseveral (right )?classes|classes that are right => multi-label
\bsettle[sd]? (ties|tied) => resolve tied weights
\b(as )?an? share of\b|\bas shares? of\b => fraction of
\b(padded|gold|real|hidden|left-out|starting) places?\b|\bone place (later|to)|\bplaces? in the (sequence|text|batch|row|example) => position, index
\btask.s figures?\b|\bbest figure\b|\bfirst figure\b => metric
\bencoder.s memory\b => encoder output, encoder_hidden_states
\binner (size|width) => intermediate size
\bbeside (others|the peers)\b => comparison
\b(once|twice) an? (?!while\b|day\b|week\b|month\b|year\b) => once per
\b(one|two|three|four|bytes?|numbers?|lines?|tokens?|objects?|captions?|seconds|times?|rows?|calls?|files?|pages?|folders?) an? (step|row|token|call|line|file|pass|head|class|layer|batch|block|rank|page|decision|stack|sequence|tile|position|word|request|query|column|thread|chunk|image|model|element|parameter|example|bucket|message|update|lesson|mapped)\b => per
\b(blocks|examples|steps) an? (stack|step|epoch) => per
\bthat are none\b => false positives
질의 => 쿼리
교차 어텐션 => 크로스 어텐션
매개변수 => 파라미터
(쿼리|키)(와|, ?|·)(키(와|, ?|·))?값 => 밸류
(?<!안녕하)세요 => 합니다체 (…십시오)
'

# Exceptions, each with its reason.
excluded=(
  tools/check_words.sh            # the rules themselves
  LICENSE
  web/dist web/package-lock.json  # made by tools
  fuzz/seeds fuzz/dictionaries    # bytes for the fuzzer
  tests/golden                    # reference values and the scripts that made them
  '*.svg'                         # drawn by heed
)
# Lines that may contain a retired word:
# - names of files that wait for a rename;
# - names that are part of the command line and stay as aliases (--mute of --ablate);
# - Korean sentences inside tests and prompts for a model.
allowed='#include "(base/ahead\.h|kernels/(gemm_finish|turn)-inl\.h)"|--ablate,--mute|(src/retrieval/rag\.cc|tests/(retrieval|serve|text)/[^:]*):.*세요'

if [ $# -gt 0 ]; then
  files=("$@")
else
  skip=()
  for path in "${excluded[@]}"; do skip+=(":(exclude)$path"); done
  mapfile -t files < <(git ls-files -- . "${skip[@]}")
fi

# A first look with all rules as one expression finds the few lines that are worth asking each rule.
RULES=$rules ALLOWED=$allowed perl -CSDA -Mutf8 -e '
  my @rules = map { my ($pattern, $instead) = split / => /; [qr/$pattern/, $instead] }
    grep { length } split /\n/, do { my $r = $ENV{RULES}; utf8::decode($r); $r };
  my $any = do { my $all = join "|", map { "(?:$_->[0])" } @rules; qr/$all/ };
  my $allowed = do { my $a = $ENV{ALLOWED}; utf8::decode($a); qr/$a/ };
  my $found = 0;
  for my $file (@ARGV) {
    open my $in, "<:raw", $file or next;
    local $/;
    my $text = <$in>;
    next if !defined $text || $text =~ /\0/ || !utf8::decode($text) || lc $text !~ $any;
    my $number = 0;
    for my $line (split /\n/, $text) {
      ++$number;
      next if lc $line !~ $any || "$file:$line" =~ $allowed;
      for my $rule (@rules) {
        next if lc $line !~ $rule->[0];
        my $from = $-[0] > 30 ? $-[0] - 30 : 0;
        print STDERR "words: $file:$number: ", substr($line, $from, $+[0] - $from + 30), " [write: $rule->[1]]\n";
        $found = 1;
      }
    }
  }
  print STDERR "words: replace these; the rules are in tools/check_words.sh\n" if $found;
  exit $found;
' "${files[@]}"
