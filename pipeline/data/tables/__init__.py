"""Tables with strings, dates and gaps, as rows of numbers: what is asked, what is learnt, and how it is applied."""
