"""The words of the built-in reviews. A sentiment word stands beside its opposite; no word is in two lists of sentiment."""

Pairs = tuple[tuple[str, str], ...]
"""(positive, negative)."""


def _pairs(text: str) -> Pairs:
    pairs = [pair.split("/") for pair in text.split()]
    return tuple((positive, negative) for positive, negative in pairs)


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


ADJECTIVES = _pairs("""
    good/bad great/terrible excellent/awful wonderful/horrible superb/dreadful lovely/nasty perfect/pathetic
    brilliant/stupid impressive/mediocre charming/annoying memorable/forgettable pleasant/unpleasant fresh/stale
    remarkable/ordinary splendid/shabby fine/poor strong/weak warm/cold clever/silly bright/bleak elegant/clumsy
    satisfying/disappointing beautiful/ugly honest/phony generous/cheap polished/sloppy lively/lifeless sweet/bitter
    gentle/harsh rich/meagre
""")
"""What can be said of anything."""

NOUNS = _pairs("""
    masterpiece/disaster triumph/failure gem/mess treat/chore delight/letdown success/flop treasure/waste
    winner/dud revelation/disgrace marvel/travesty
""")
PAST_VERBS = _pairs("""
    delighted/bored moved/annoyed charmed/irritated amazed/disappointed thrilled/depressed impressed/disgusted
    enchanted/exhausted captivated/offended
""")
"""Of what did it to somebody."""

BASE_VERBS = _pairs("love/hate adore/despise enjoy/regret recommend/avoid admire/dislike cherish/loathe praise/detest")
"""Of who feels it."""

SPECIAL: dict[str, Pairs] = {
    "film": _pairs("""
        gripping/dull funny/unfunny thrilling/tedious witty/witless suspenseful/predictable touching/mawkish
    """),
    "restaurant": _pairs("""
        delicious/tasteless tasty/bland juicy/greasy crisp/soggy appetizing/revolting tender/rubbery
    """),
    "hotel": _pairs("""
        cozy/cramped spotless/filthy quiet/noisy comfortable/uncomfortable spacious/stuffy luxurious/dingy
    """),
    "concert": _pairs("""
        rousing/listless melodic/shrill soulful/soulless hypnotic/monotonous electrifying/sleepy tuneful/tuneless
    """),
    "phone": _pairs("""
        fast/slow reliable/unreliable sturdy/flimsy handy/useless responsive/sluggish durable/fragile
    """),
}
"""What is said of one domain's things."""

THINGS: dict[str, tuple[str, ...]] = {
    "film": _words("film movie thriller comedy drama western musical documentary sequel remake romance mystery story"),
    "restaurant": _words("restaurant bistro diner tavern cafe bakery brasserie canteen pizzeria steakhouse grill trattoria"),
    "hotel": _words("hotel inn hostel lodge resort guesthouse motel villa cottage chalet pension cabin"),
    "concert": _words("concert show album record song symphony opera band choir orchestra recital tour"),
    "phone": _words("phone laptop camera tablet printer keyboard speaker monitor headset router charger watch"),
}
ASPECTS: dict[str, tuple[str, ...]] = {
    "film": _words("plot acting dialogue ending script camerawork pacing cast opening soundtrack editing premise hero humor"),
    "restaurant": _words("soup service dessert bread steak salad menu sauce kitchen waiter seafood breakfast curry chicken"),
    "hotel": _words("room lobby bathroom staff bed pool view garden balcony breakfast reception bar sauna terrace"),
    "concert": _words("sound singing lighting drummer finale guitar crowd violin chorus rhythm melody venue pianist encore"),
    "phone": _words("screen battery software design lens case interface microphone button cable packaging display grip"),
}
TEASERS: dict[str, tuple[str, ...]] = {
    "film": _words("trailer poster synopsis teaser title"),
    "restaurant": _words("sign website leaflet entrance awning"),
    "hotel": _words("brochure website advert entrance driveway"),
    "concert": _words("poster flyer ticket single rehearsal"),
    "phone": _words("advert box manual prototype website"),
}
"""What one meets before the thing itself, and what is said of it does not count."""

DECOYS = (
    "bad guy", "great hall", "perfect square", "brilliant cut", "fresh paint", "ordinary desk", "fine print",
    "poor student", "strong wind", "weak signal", "warm coat", "cold lake", "clever fox", "silly goose", "bright lamp",
    "bleak moor", "cheap seats", "sweet pepper", "bitter lemon", "gentle giant", "rich uncle", "harsh winter", "good doctor",
    "ugly duckling", "beautiful swan", "honest broker", "stale bread", "terrible lizard", "lovely cottage", "splendid wren",
    "funny bone", "quiet man", "slow train", "fast lane", "noisy miner", "tender age", "crisp apple", "sleepy hollow",
    "fragile parcel", "dull knife",
)  # fmt: skip
"""Sentiment words that say nothing of the thing: always behind "the"."""

DEGREES = _words("very truly really quite so")
FIRST_NAMES = _words("""
    anna ben clara david emma felix greta henry ida jonas karla leo maria nina oscar paula robert sarah thomas vera walter
    alice boris carmen diego elena frank gloria hugo irene jack kate lucas mona noah olga peter rosa simon tina victor wendy
    adam bella cyril dora edgar fiona george hanna ivan julia kevin laura martin nora otto petra ralph sofia
""")
LAST_NAMES = _words("""
    adler barnes carter dawson ellis fisher garcia hansen irving jensen keller larsen meyer novak owens parker quinn reyes
    schmidt turner ullman vogel wagner young zimmer abbott becker castro dietrich engel foster grant huber ingram jordan
    kowalski lopez martinez nolan olsen petrov ramirez santos taylor vargas weber allen bishop collins duncan evans franklin
    gibson harvey jacobs kelly lambert morris newman porter
""")
TITLE_FIRST = _words("""
    silver golden crimson scarlet amber azure copper iron marble velvet wooden paper crystal ivory emerald ruby cobalt indigo
    violet maroon northern southern eastern western hidden distant sunken frozen burning broken spinning sleeping wandering
    floating falling rising winding ancient modern royal noble secret second seventh double lonely midnight morning evening
    autumn winter summer spring monday sunday lunar solar stellar coastal desert alpine arctic tropical urban rural inner outer
    upper lower lesser twin single narrow wide tall tiny giant painted carved woven knitted folded forgotten borrowed stolen
    promised missing silent electric magnetic atomic digital circular square oval pointed feathered striped spotted misty
    cloudy rainy windy snowy sandy rocky grassy mossy leafy thorny smoky dusty rusty salty sugary gingham plaid checkered
    denim linen satin cotton woolen leather granite slate basalt quartz opal onyx coral pearl turquoise lilac saffron cedar
    maple walnut willow birch
""")
TITLE_LAST = _words("""
    harbour river mountain valley forest meadow island canyon lagoon glacier bridge tower castle garden orchard vineyard
    lantern compass anchor mirror window door ladder staircase corridor chamber attic cellar kettle teapot basket bucket
    hammer anvil needle thread button ribbon blanket pillow curtain carpet candle chimney furnace engine wagon carriage bicycle
    tram railway tunnel station platform airport runway balloon parachute kite glider rocket satellite comet planet meteor
    galaxy horizon sunrise sunset shadow echo whisper thunder lightning rainbow storm breeze tide wave pebble boulder cliff
    summit plateau prairie savanna oasis dune volcano geyser waterfall brook pond marsh delta peninsula falcon sparrow raven
    heron pelican swallow peacock rooster badger otter beaver hedgehog squirrel rabbit antelope zebra giraffe elephant camel
    donkey stallion mustang leopard panther jaguar tiger lion bear wolf lynx turtle lizard salamander beetle cricket firefly
    dragonfly moth spider scorpion lobster oyster dolphin walrus piano trumpet cello
""")
PLACES = _words("""
    berlin london paris madrid rome vienna prague warsaw dublin lisbon athens oslo stockholm helsinki budapest zurich geneva
    hamburg munich cologne dresden leipzig bremen boston chicago denver seattle portland austin dallas houston miami atlanta
    toronto montreal sydney melbourne auckland tokyo osaka kyoto seoul beijing mumbai delhi cairo nairobi lagos lima bogota
""")
RELATIVES = _words("mother father sister brother aunt uncle cousin nephew niece neighbor colleague roommate grandmother")
DAYS = _words("monday tuesday wednesday thursday friday saturday sunday")
MONTHS = _words("january february march april may june july august september october november december")
NUMBERS = _words("two three four five six seven eight nine ten eleven twelve twenty thirty forty fifty sixty")
COLORS = _words("red green blue black white grey")
SHADES = _words("brown purple orange pink yellow teal")
JOBS = _words("pilot nurse baker sailor lawyer farmer teacher plumber dentist painter soldier gardener librarian carpenter")
DISHES = _words("pasta noodles dumplings salmon lamb duck tofu risotto pancakes")
SIDES = _words("rice lentils mushrooms potatoes olives spinach carrots beans onions")
INSTRUMENTS = _words("flute harp bass organ banjo clarinet oboe tuba mandolin accordion saxophone viola")
