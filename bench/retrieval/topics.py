"""What invented people talk about: an opener, an answer with a gap, what fits the gap, and questions about it.

`plain` asks in the words of the answer, `reworded` in others, `context` in those of the opener alone: the answer by
itself does not say what it is about.
"""

from __future__ import annotations

from typing import NamedTuple


class Topic(NamedTuple):
    """One thing that two people talk about. `{x}` stands for the value, `{who}` for the person who answers."""

    opener: str
    answer: str
    values: tuple[str, ...]
    plain: str = ""
    reworded: str = ""
    context: str = ""
    shared: str = ""


class Chain(NamedTuple):
    """Somebody is named in one turn, and told about days later: `question` names neither, and takes both turns.

    `{n}` stands for the name, `{x}` for what is told, `{who}` for the person who answers.
    """

    opener: str
    answer: str
    later_opener: str
    later_answer: str
    values: tuple[str, ...]
    question: str


TOPICS = (
    Topic(
        "Did you ever settle on an animal for the flat?",
        "Yes, last month we adopted {x} from the shelter, still very shy.",
        ("a greyhound", "two kittens", "an old beagle", "a parrot", "a rabbit", "a tortoise"),
        "Which animal did {who} adopt from the shelter?",
        "What pet does {who} have?",
        shared="What pets do the two of them have?",
    ),
    Topic(
        "How do you get to the office these days?",
        "Mostly by {x}, unless it snows.",
        ("bicycle", "tram", "ferry", "scooter", "night bus", "roller skates"),
        reworded="What does {who} use for commuting?",
        context="How does {who} get to the office?",
    ),
    Topic(
        "What are you reading at the moment?",
        "I am halfway through {x} and cannot put it down.",
        (
            "a biography of Ada Lovelace",
            "The Master and Margarita",
            "a history of salt",
            "a thriller set in Oslo",
            "poems by Szymborska",
            "a cookbook from Oaxaca",
        ),
        reworded="Which book did {who} enjoy?",
        context="What is {who} reading?",
        shared="Which books are both of them into?",
    ),
    Topic(
        "Your birthday is coming up, any wishes?",
        "Just {x}, honestly, nothing that needs dusting.",
        ("a day of sleep", "concert tickets", "a good knife", "a weekend at the sea", "new headphones", "a telescope"),
        reworded="What present would make {who} happy?",
        context="What does {who} wish for the birthday?",
    ),
    Topic(
        "Is the knee any better?",
        "The doctor says {x}, and no running until then.",
        ("six more weeks of physio", "surgery in March", "it is only a strain", "an MRI first", "to wear a brace"),
        reworded="What medical advice did {who} get about the injury?",
        context="What about the knee of {who}?",
    ),
    Topic(
        "Have you decided where to go in summer?",
        "We booked {x}, two weeks, all trains.",
        ("a cabin in Norway", "a farmhouse in Umbria", "a houseboat in Utrecht", "a hut in the Tatras", "the Azores"),
        "What has {who} booked for two weeks?",
        "Where does {who} spend the holidays?",
        "Where does {who} go in summer?",
        "Where are they travelling, each of them?",
    ),
    Topic(
        "How is the new job treating you?",
        "Good, I {x} now, and the team is kind.",
        (
            "teach chemistry at a grammar school",
            "repair wind turbines",
            "write firmware for ventilators",
            "run the archive of a newspaper",
            "bake in a small bakery",
            "drive a crane at the port",
        ),
        reworded="What does {who} do for a living?",
        context="What about the new job of {who}?",
        shared="What are their professions?",
    ),
    Topic(
        "Does anyone in your house cook?",
        "I do, and my {x} is what everybody asks for.",
        ("mushroom risotto", "lamb tagine", "okra curry", "potato gratin", "fish soup", "plum dumplings"),
        "What is it that everybody asks {who} for?",
        "Which dish is {who} famous for?",
        shared="What food does each of them make best?",
    ),
    Topic(
        "Did the landlord answer about the heating?",
        "He did: {x}, so we wait with sweaters on.",
        ("a plumber comes on Thursday", "the boiler is to be replaced", "nothing before November", "it is our fault"),
        reworded="What did the owner of the apartment tell {who} about being cold?",
        context="What did the landlord of {who} say about the heating?",
    ),
    Topic(
        "You sounded so happy on the phone!",
        "Because {x}! I still cannot believe it.",
        (
            "my sister is expecting twins",
            "I passed the bar exam",
            "we got the mortgage",
            "my visa came through",
            "the tumour was benign",
            "my novel found a publisher",
        ),
        reworded="What good news did {who} have?",
        context="Why did {who} sound happy on the phone?",
    ),
    Topic(
        "Any sport this winter?",
        "I signed up for {x} on Tuesdays, my arms hurt already.",
        ("fencing", "bouldering", "rowing", "aikido", "water polo", "ice hockey"),
        "What did {who} sign up for on Tuesdays?",
        "Which physical activity has {who} taken up?",
        shared="How do they keep fit?",
    ),
    Topic(
        "Are you allergic to anything? I am planning dinner.",
        "Only {x}, the rest is fine with me.",
        ("walnuts", "shellfish", "lactose", "celery", "strawberries", "sesame"),
        reworded="Which food must not be served to {who}?",
        context="What is {who} allergic to?",
        shared="What must a cook avoid when both come to dinner?",
    ),
    Topic(
        "What did the mechanic find?",
        "It was {x}, three hundred gone just like that.",
        ("the alternator", "a cracked radiator", "the clutch", "worn brake discs", "a marten in the wiring"),
        "What cost {who} three hundred?",
        "What was wrong with the car of {who}?",
    ),
    Topic(
        "Which language is it this year?",
        "{x}, with an app and a very patient neighbour.",
        ("Finnish", "Arabic", "Sign language", "Korean", "Welsh", "Portuguese"),
        "Who is the patient neighbour helping {who} with?",
        "What is {who} learning to speak?",
        "Which language is it for {who}?",
    ),
    Topic(
        "Did the kids get their parts in the play?",
        "{x}! We have been sewing all week.",
        ("Two trees and a wolf", "The queen's page", "A talking clock", "The whole left half of a dragon"),
        reworded="Which role on stage do the children of {who} have?",
        context="Which parts did the kids of {who} get?",
    ),
    Topic(
        "I could not sleep at all. You?",
        "{x} does it for me, every night the same.",
        ("Camomile tea", "A podcast about trains", "Counting backwards in Latin", "A cold bedroom", "Magnesium"),
        reworded="What helps {who} against insomnia?",
    ),
    Topic(
        "How did the interview go?",
        "They asked about {x} for an hour, I was sweating.",
        ("graph colouring", "the French Revolution", "my gap year", "tax law", "database locks", "wound care"),
        "What was {who} asked about for an hour?",
        "Which subject came up when {who} applied for a position?",
        "How did the interview of {who} go?",
    ),
    Topic(
        "What is that noise behind you?",
        "My neighbour practising {x}, it gets better.",
        ("the accordion", "drums", "throat singing", "the oboe", "tap dance", "a power drill"),
        "What is the neighbour of {who} practising?",
        "Which instrument or noise disturbs {who}?",
    ),
    Topic(
        "Did your grandmother enjoy the party?",
        "She {x} until midnight, imagine that.",
        ("danced tango", "played poker", "told war stories", "flirted with the waiter", "sang in the kitchen"),
        reworded="How did the oldest guest amuse herself at the celebration of {who}?",
        context="Did the grandmother of {who} enjoy the party?",
    ),
    Topic(
        "Are you still growing things on the balcony?",
        "Only {x} survived the hail, but they look proud.",
        ("the tomatoes", "two chilli plants", "the lavender", "a fig tree", "the beans", "some rhubarb"),
        "What survived the hail at {who}'s?",
        "Which plants does {who} have?",
        "What is {who} growing on the balcony?",
        "What grows in their gardens?",
    ),
    Topic(
        "When is your appointment with the bank?",
        "On {x}, and I have to bring every payslip since 2019.",
        ("the ninth of June", "Monday at eight", "Good Friday, of all days", "the last of the month"),
        "When must {who} bring the payslips?",
        "On which date does {who} talk about the loan?",
        "When is the appointment of {who} with the bank?",
    ),
    Topic(
        "What happened to your old laptop?",
        "{x}, and the backup was from spring.",
        ("I poured cocoa over it", "It was stolen on the tram", "The screen went black", "My nephew dropped it"),
        reworded="How did {who} lose the computer?",
        context="What happened to the old laptop of {who}?",
    ),
    Topic(
        "Who is looking after the shop while you are gone?",
        "{x} will, with strict instructions about the till.",
        ("My cousin Ilse", "Old Ferreira", "The twins next door", "Our apprentice Jun", "My father-in-law"),
        "Who got strict instructions about the till from {who}?",
        "Who is standing in for {who} at the store?",
        "Who looks after the shop of {who}?",
    ),
    Topic(
        "Did you vote for the new logo?",
        "I went for {x}, it looks calm.",
        ("the heron", "the blue circle", "plain letters", "the folded map", "the lighthouse"),
        reworded="Which design did {who} prefer?",
        context="Which logo did {who} vote for?",
        shared="Which emblem did each of them choose?",
    ),
    Topic(
        "Why were you late on Sunday?",
        "{x}, and then the lift was broken too.",
        ("A cow stood on the rails", "I locked myself out", "The clocks had changed", "I had the wrong address"),
        reworded="What excuse had {who} for not being on time?",
        context="Why was {who} late on Sunday?",
    ),
    Topic(
        "What shall I bring to the picnic?",
        "Bring {x}, we have everything else.",
        ("lemonade", "a frisbee", "the big blanket", "ice cubes", "a sharp knife", "cherries"),
        "What shall one bring for {who}, who has everything else?",
        context="What shall be brought to the picnic of {who}?",
    ),
    Topic(
        "Is it true that you met someone famous?",
        "{x}, in a queue, and I said something stupid.",
        ("A Nobel laureate", "The mayor", "An astronaut", "That actor from the crime series", "A chess champion"),
        reworded="Which celebrity did {who} run into?",
        context="Who famous did {who} meet?",
    ),
    Topic(
        "What are you saving for?",
        "For {x}; another year and I can pay it in cash.",
        ("a kiln", "a used van", "a wooden sailing boat", "a piano", "solar panels", "a wheelchair ramp"),
        "What can {who} pay in cash in another year?",
        "What big purchase does {who} plan?",
        "What is {who} saving for?",
        "What does each of them put money aside for?",
    ),
)

CHAINS = (
    Chain(
        "Who is mending your roof after the storm?",
        "{n}, from the end of our road, and cheap too.",
        "Any gossip from your street?",
        "{n} {x}, nobody saw it coming.",
        ("is moving to Lisbon", "has won the lottery", "broke both wrists", "is running for the council"),
        "What became of the roofer of {who}?",
    ),
    Chain(
        "Do the children like their new piano teacher?",
        "They adore {n}, even the scales.",
        "Was it a good concert on Friday?",
        "Wonderful, {n} {x} in the second half.",
        ("sang an aria", "fell off the stage", "played with a torn score", "conducted blindfold"),
        "What did the piano teacher of {who} do at the concert?",
    ),
    Chain(
        "Who do you share the office with now?",
        "With {n}, who whistles.",
        "Why is your desk full of boxes?",
        "They belong to {n}, who {x}.",
        ("imports cheese", "sorts old maps", "was promoted and leaves", "collects typewriters"),
        "What is known about the colleague who shares the office with {who}?",
    ),
    Chain(
        "How did you find the dentist in the end?",
        "Through a friend. {n} is the name, very gentle.",
        "Were you not supposed to have an appointment today?",
        "Cancelled, because {n} {x}.",
        ("has the flu", "is stuck in Reykjavik", "went on strike", "is having a baby"),
        "Why does the dentist of {who} see nobody?",
    ),
    Chain(
        "And who took the dog while you were away?",
        "{n} did, with long walks every day.",
        "What shall we give as a thank-you?",
        "Let me think. {n} {x}, so perhaps something for that.",
        ("keeps bees", "restores clocks", "is learning the harp", "bakes sourdough"),
        "Which hobby has the dog sitter of {who}?",
    ),
    Chain(
        "Who will be your witness at the wedding?",
        "I asked {n}, and there were tears.",
        "Is everybody coming, then?",
        "All but {n}, who {x} that week.",
        ("has an exam", "must be in court", "sails to Malta", "is on night duty"),
        "Why is the witness at the wedding of {who} not coming?",
    ),
)

THIRD_PEOPLE = (
    "Ilse", "Ferreira", "Jun", "Dagmar", "Okafor", "Wanda", "Yusuf", "Solveig", "Petros", "Amara", "Rasmus", "Zelda",
)  # fmt: skip

CHATTER = (
    "Ha, exactly!", "I know what you mean.", "Sorry, I was on another call.", "Let us talk later.",
    "That sounds lovely.",
    "Did you see the weather?", "I have to run, more tomorrow.", "Oh no, really?", "Wait, the doorbell.",
    "You always say that.", "Same here, to be honest.", "The week was too long.", "Can you hear me now?",
    "Anyway, how are things otherwise?", "I laughed so hard.", "Fine, fine, you win.", "Send me a picture!",
    "Good morning from the train.", "I will ask and tell you.", "Not today, I am afraid.",
)  # fmt: skip

PEOPLE = (("Mira", "Tomas"), ("Aylin", "Bogdan"), ("Chidi", "Freya"), ("Henrik", "Ines"))
