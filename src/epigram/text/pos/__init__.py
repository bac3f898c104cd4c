"""The part-of-speech table: lexicons, taggers, tag sets, and the words that a user adds."""
