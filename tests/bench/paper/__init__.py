"""The paper again: its figures and tables from our own runs, each beside what is printed.

Ogawa, Suzuki, Suzumura, Takeuchi: Safe Sample Screening for Support Vector Machines (2014). ``printed.yaml`` has its
numbers. Ratios to Full and the order are compared, never seconds with those of 2014. ``sets`` finds the data, a file a
figure or table does the work, ``exhibit`` is what they have in common, ``output`` writes page, SVG and CSV.
"""
