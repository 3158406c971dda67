# Called by tools/check_words.sh: prints every retired word in the files that are its arguments.
use strict;
use utf8;
my @rules = map { my ($pattern, $instead) = split / => /; [qr/$pattern/, $instead] }
  grep { !/^#/ } split /\n/, do { open my $in, "<:encoding(UTF-8)", $ENV{RULES} or die; local $/; <$in> };
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
print STDERR "words: replace these; the rules are in tools/retired_words.txt\n" if $found;
exit $found;
