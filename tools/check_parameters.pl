# Called by tools/check_parameters.sh: prints every function in the files that are its arguments which
# takes too many parameters, declared, defined or as a lambda.
use strict;
my $limit = $ENV{LIMIT};
my $found = 0;

# Splits a parameter list at its outermost commas.
sub parts {
  my ($list) = @_;
  my ($depth, $part, @parts) = (0, "");
  for my $c (split //, $list) {
    ++$depth if $c =~ /[(\[{<]/;
    --$depth if $c =~ /[)\]}>]/;
    if ($c eq "," && $depth == 0) { push @parts, $part; $part = ""; }
    else { $part .= $c; }
  }
  return (@parts, $part);
}

# A parameter is a type and a name, or a type alone that cannot be an expression. A call of as many
# arguments has some that are neither.
sub is_parameter {
  my ($text) = @_;
  $text =~ s/\s+/ /g;
  $text =~ s/^ | $//g;
  $text =~ s/ = .*//;
  $text =~ s/\[\[.*?\]\] //g;
  return 1 if $text =~ /^[\w:<>, *&]+ \(\*\w*\)(?:\[\w+\]|\(.*\))$/;  # pointers to arrays and functions
  my $type = qr/(?:const |typename |unsigned |HWY_RESTRICT )*[\w:]+(?:<.*>)?(?: const)?(?: ?(?:[*&]+|HWY_RESTRICT))*/;
  return $text =~ /^$type \w+(?:\[\w*\])?$/ || $text =~ /^$type[*&]\w+$/ || $text =~ /^$type[*&]$/ ||
         $text =~ /^[\w:]+<.*>$/ ||
         $text =~ /^(?:std::)?(?:u?int\d*_t|size_t|float|double|bool|char|int)$/;
}

for my $file (@ARGV) {
  open my $in, "<", $file or next;
  local $/;
  my $text = <$in>;
  $text =~ s/\\\n/ \n/g;  # macros
  # Comments and strings become blanks of the same lines.
  $text =~ s{(//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])')}{ my $t = $1; $t =~ s/[^\n]/ /g; $t }gse;
  while ($text =~ /([\w~]+|\])\s*\(/g) {
    my ($name, $from) = ($1, pos $text);
    next if $name =~ /^(?:if|for|while|switch|return|sizeof|alignof|catch)$/;
    my ($depth, $end) = (1, $from);
    while ($depth && $end < length $text) {
      my $c = substr $text, $end++, 1;
      ++$depth if $c eq "(";
      --$depth if $c eq ")";
    }
    my @parts = parts(substr $text, $from, $end - $from - 1);
    next if @parts < $limit || grep { !is_parameter($_) } @parts;
    my $line = 1 + (substr($text, 0, $from) =~ tr/\n//);
    $name = "a lambda" if $name eq "]";
    print STDERR "parameters: $file:$line: $name takes ", scalar @parts, " parameters\n";
    $found = 1;
  }
}
print STDERR "parameters: give these a struct of arguments with named fields\n" if $found;
exit $found;
